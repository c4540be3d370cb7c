/** Why there is no answer. */
export class Problem extends Error {
  /** @param {number} status as HTTP has them; 0 where nobody answers @param {string} text */
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}
