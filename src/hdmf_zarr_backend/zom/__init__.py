"""The Zarr Object Model (ZEP 6) as public API: models of files, their JSON, schemas, differences, dry runs."""
