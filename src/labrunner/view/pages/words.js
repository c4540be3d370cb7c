/** How figures and times are written. */

/** @param {number | null | undefined} value @param {number} [digits] */
export function figure(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) >= 100) return value.toLocaleString("en");
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(digits);
}

/** @param {number | null | undefined} value */
export function count(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en");
}

/** @param {number} number @param {string} noun @param {string} [several] where that is not the noun and an s */
export function counted(number, noun, several = `${noun}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? noun : several}`;
}

/** @param {string} name @param {number} most letters @returns {string} a name of at most so many: what is left out was in its middle */
export function shorten(name, most) {
  const letters = [...name];
  if (letters.length <= most) return name;
  const tail = Math.floor(most / 3);
  return `${letters.slice(0, most - tail - 1).join("")}…${letters.slice(-tail).join("")}`;
}

/** @param {number | null | undefined} value */
export function money(value) {
  if (value === null || value === undefined) return "";
  return value !== 0 && Math.abs(value) < 0.01 ? `$${value.toPrecision(2)}` : `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

/** @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 2 ** 20 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 2 ** 20).toFixed(1)} MB`;
}

/** @param {string | null | undefined} stamp @returns {string} how long ago */
export function ago(stamp) {
  if (!stamp) return "";
  const seconds = (Date.now() - Date.parse(stamp)) / 1000;
  if (Number.isNaN(seconds)) return "";
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s ago`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

/** @param {string | null | undefined} stamp @returns {string} a time of the day, or with its day where that differs from `near` */
export function clock(stamp, near = "") {
  if (!stamp) return "";
  const [day, time] = stamp.split("T");
  return near.startsWith(day) ? time.slice(0, 8) : `${day} ${time.slice(0, 8)}`;
}
