package differential

// Keystone are the known differences between Keystone 30 and that of simcloud.
func Keystone() Table {
	return Table{Name: "Keystone", Classes: []Class{
		{"order of lists", "The real service has no order there.", []Pattern{{Part: `^order `}}},
		{"texts of failed validations", "The real service has the text of jsonschema. Ours is shorter.", []Pattern{
			{Part: `^text$`, Real: `^400 .*(Invalid input for field|is a required property|Expecting to find|is not of type)`, Ours: `^400 `},
		}},
		{"roles of application credentials", "They are whole roles, with description, domain and options. Ours have id and name.", []Pattern{
			{Part: `^body .application_credentials?(\[\])?\.roles\[\]\.(description|domain_id|options)`},
		}},
		{"unrestricted of application credentials", "It is null if it was not given, and null is accepted. Ours is false.", []Pattern{
			{Part: `^body .application_credentials?(\[\])?\.unrestricted$`},
			{Request: `^POST /v3/users/.*"unrestricted":null`, Part: `^status$`, Real: `^201`},
		}},
		{"empty description of an application credential", "It stays empty. Ours is null.", []Pattern{{Part: `^body .application_credentials?(\[\])?\.description$`, Real: `^""$`, Ours: `^null$`}}},
		{"json-home", "`Accept: application/json-home` gets a list of resources. Ours ignores it.", []Pattern{{Request: `\nAccept: application/json-home`, Part: `.`}}},
		{"options of roles", "The bootstrap makes its roles immutable.", []Pattern{{Part: `^body .roles?(\[\])?\.options`}}},
		{"unknown credentials", "A login with an unknown application credential or a bad token is 404. Ours answers 401.", []Pattern{
			{Request: `^POST /v3/auth/tokens`, Part: `^status$`, Real: `^404`, Ours: `^(400|401)`},
		}},
		{"validation without the right", "A caller who may not validate tokens gets 403, whatever the token. Ours looks for the token first: 404.", []Pattern{
			{Request: `^(GET|HEAD|DELETE) /v3/auth/tokens`, Part: `^status$`, Real: `^403`, Ours: `^404`},
		}},
		{"HEAD of a token", "A service user may GET a token and not HEAD it. Ours answers both.", []Pattern{
			{Request: `^HEAD /v3/auth/tokens`, Part: `^status$`, Real: `^403`, Ours: `^200`},
		}},
		{"texts of unknown tokens", "The text names Fernet.", []Pattern{{Part: `^(text|status)$`, Real: `(Could not recognize Fernet token|No token in the request)`}}},
		{"routes that ours lacks", "limits, registered limits, credentials, policies, grants and groups are not simulated, and Keystone's objects are read-only.", []Pattern{
			{Request: `^\w+ /v3/(limits|registered_limits|credentials|policies|groups|projects|users)`, Part: `^(status|text|body.*)$`, Ours: `^(404|405) `},
			{Request: `^\w+ /v3/(limits|registered_limits|credentials|policies|groups)`, Part: `^(status|text|body.*)$`},
		}},
		{"logins that are wrong in form", "The real service validates in another order, and has other texts.", []Pattern{
			{Request: `^POST /v3/auth/tokens`, Part: `^(status|text|body \.error\.identity)`, Real: `^([{]|400|401)`, Ours: `^(absent|400|401)`},
			{Request: `^POST /v3/auth/tokens[^\n]*\n(Content-Type: (text/plain|application/xml))`, Part: `^status$`, Real: `^400`},
		}},
		{"trusts", "A login with an unknown trust is 401. Ours answers 404.", []Pattern{{Request: `^POST /v3/auth/tokens.*OS-TRUST:trust`, Part: `^status$`, Real: `^401`}}},
		{"system scope without all", "`{\"system\": {}}` is the whole system. Ours answers 400.", []Pattern{
			{Request: `^POST /v3/auth/tokens.*"system":[{]("all":false)?[}]`, Part: `^status$`},
		}},
		{"domain names without case", "They are compared as the database does; SQLite distinguishes case, MariaDB does not. Ours does not.", []Pattern{
			{Request: `^POST /v3/auth/tokens.*"domain":[{]"name":"default"`, Part: `^status$`, Real: `^401`},
		}},
		{"names of users without case", "They are compared as the database does; SQLite distinguishes case, MariaDB does not. Ours does not.", []Pattern{
			{Request: `^POST /v3/auth/tokens.*"name":"(ADMIN|DEMO|NOVA|ALICE)"`, Part: `^status$`, Real: `^401`},
		}},
		{"application credentials that are wrong in form", "The real service refuses unknown fields, and an unknown role is 404.", []Pattern{
			{Request: `^POST /v3/users/[^\n]*/application_credentials`, Part: `^(status|text)$`, Real: `^(400|403|404|409)`, Ours: `^(201|400|403|404|409)`},
		}},
		{"application credentials of another user", "The real service answers an administrator 200 or 204, and any other user 403.", []Pattern{
			{Request: `^\w+ /v3/users/[^\n]*/application_credentials`, Part: `^(status|text)$`, Real: `^(200|201|204|403|404)`, Ours: `^(200|403|404)`},
		}},
		{"keys of a domain", "Ours also has the keys of a project.", []Pattern{{Part: `^body .domains?(\[\])?\.(domain_id|is_domain|parent_id|tags|options)$`, Real: `^absent$`}}},
		{"links of the catalog", "Ours has next and previous, too.", []Pattern{{Request: `/v3/auth/`, Part: `^body .links\.(next|previous)$`, Real: `^absent$`}}},
		{"description of a service", "The real service omits an empty one. Ours has it.", []Pattern{{Part: `^body .services?(\[\])?\.description$`, Real: `^absent$`}}},
		{"OPTIONS and Allow", "OPTIONS is answered 200, and Allow lists the methods of the real service.", []Pattern{{Request: `^OPTIONS `, Part: `.`}, {Part: `^header Allow$`}}},
		{"errors of Flask", "For a route that does not exist, and for 405, the body is Flask's.", []Pattern{
			{Part: `^(text|body .*|body )$`, Real: `(doctype html|The method is not allowed|null|absent|^405 $)`, Ours: `(404|405|Not Found|Method Not Allowed|absent)`},
			{Part: `^header Content-Type$`, Real: `text/html`},
		}},
	}}
}
