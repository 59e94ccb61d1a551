"""The routes, and the OpenAPI document that describes them."""
