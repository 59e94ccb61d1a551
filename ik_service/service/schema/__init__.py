"""The documents of the HTTP surface as JSON schema: models, limits of one request, examples."""
