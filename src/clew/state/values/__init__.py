"""Values: how they are encoded, stored, compared and shown."""
