"""Who carries attempts out: the Executor door and its adapters."""
