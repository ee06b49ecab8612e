// Package strictjson decodes JSON that has no unknown fields: configurations and snapshots.
package strictjson
