"""Sessions on their way: to files of other forms and back."""
