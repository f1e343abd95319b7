"""The service: one async function per wire method; the only place that knows wire shapes and domain objects."""
