// Package schema checks JSON bodies against JSON schemas and describes what is wrong with
// them in the words of Python's jsonschema library, which OpenStack's clients search for.
//
//	schemas, err := schema.Load(files, "schemas", uuids.Like)
//	value, err := schema.Decode(body)
//	err = schemas.Validate("inventory-put", value)
package schema
