// Package strictjson decodes JSON that has no unknown fields: configurations, snapshots,
// fault rules, models and the bodies of the routes below /_sim/.
package strictjson
