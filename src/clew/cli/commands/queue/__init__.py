"""The commands of queues and workers."""
