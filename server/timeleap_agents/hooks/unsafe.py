"""The error for settings that are left alone."""


class UnsafeSettingsError(Exception):
    """A settings file is left alone; the message says why."""
