"""The machine: begins a sitting, carries a run out, resumes, retries, regrades, reports."""
