package differential

// Keystone are the known differences between Keystone 30 and that of simcloud.
func Keystone() Table {
	return Table{Name: "Keystone", Classes: []Class{
		{"order of lists", "The real service has no order there.", []Pattern{
			{Part: `^order \.(token\.|application_credential|projects|users|roles|role_assignments|services|endpoints|catalog)`},
		}},
		{"secrets in a text", "A text about a body quotes passwords and secrets. Ours has *** for a text and 0 for a number.", []Pattern{
			{Request: `^POST /v3/(auth/tokens|users/[^\n]*/application_credentials)`, Part: `^text$`, Real: `^400 Invalid input for field`, Ours: `^400 Invalid input for field.*(\*\*\*|\b0 is not of type 'string')`},
		}},
		{"json-home", "`Accept: application/json-home` gets all resources of the real service. Ours has those that it serves.", []Pattern{
			{Request: `^GET /(v3)?/?\n.*Accept: application/json-home`, Part: `^body \.resources\.`, Ours: `^absent$`},
		}},
		{"headers of OPTIONS", "The real service has neither Vary nor X-Openstack-Request-Id there. Ours has both.", []Pattern{
			{Request: `^OPTIONS `, Part: `^header (Vary|X-Openstack-Request-Id)$`, Real: `^$`},
		}},
		{"access rules without a member", "The real service answers 500. Ours answers 400.", []Pattern{
			{Request: `^POST [^\n]*/application_credentials\n.*"access_rules":\[[{][}]\]`, Part: `^status$`, Real: `^500 `, Ours: `^400 Expecting to find service in access_rules/0`},
		}},
		{"objects that are read-only", "Ours answers 405 to writes of what the model defines.", []Pattern{
			{Request: `^(PATCH|POST) /v3/projects`, Part: `^status$`, Real: `^(400 Invalid input|404 Could not find project)`, Ours: `^405 $`},
			{Request: `^PUT /v3/projects/nope\n`, Part: `^header Allow$`, Real: `^delete, get, head, options, patch$`, Ours: `^get, head, options$`},
		}},
	}}
}
