//! What a tool is: catalog, schema checks, workers.
