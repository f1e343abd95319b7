"""The protocol edge: from bytes on a stream to calls of the service, and back. Begin with `connection`."""
