package differential

import "slices"

// Cyborg are the known differences between Cyborg 17 and the default of fakecyborg.
func Cyborg() Table {
	return Table{Name: "Cyborg", Classes: slices.Concat(cyborgDatabase(), cyborgQueries(), cyborgForms(), cyborgDefault())}
}

// CyborgQuirks are the known differences between Cyborg 17 and fakecyborg with UpstreamQuirks.
func CyborgQuirks() Table {
	return Table{Name: "Cyborg with upstream quirks", Classes: slices.Concat(cyborgDatabase(), cyborgQueries(), cyborgForms(), cyborgQuirks())}
}

// cyborgDatabase are differences that come from the database.
func cyborgDatabase() []Class {
	return []Class{
		{"order of hardware", "The conductor creates devices in the order of a set. Ours keeps the order of the report.", []Pattern{
			{Part: `^order .*\.(devices|deployables|attributes)$`},
		}},
		{"case and trailing blanks of names", "MariaDB compares without case and trailing blanks. Ours compares exactly.", []Pattern{
			{Request: `^POST [^\n]*/device_profiles\n`, Part: `^status$`, Real: `^409 A device_profile with name`, Ours: `^(201|400)`},
			{Request: `^POST [^\n]*/accelerator_requests\n.*"GPU"`, Part: `^status$`, Ours: `^404`},
			{Request: `^GET [^\n]*/(devices|attributes)\?[^\n]*(type=gpu|key=RC|hostname=NODE)`, Part: `^body`},
		}},
		{"texts of the database", "The text quotes the database, also for a profile in use. Ours says what is wrong.", []Pattern{
			{Part: `^text$`, Real: `pymysql`},
		}},
		{"values that are too long", "Only the column limits them: 500 for a description of 70,000 characters, 201 for an attribute of 300.", []Pattern{
			{Part: `^status$`, Real: `Data too long`},
			{Request: `^POST [^\n]*/attributes\n.*x{255}`, Part: `^(status|text)$`},
			{Request: `^POST [^\n]*/device_profiles\n.*x{255}`, Part: `^(status|text)$`},
		}},
		{"updated_at of a device that was enabled already", "It stays null. Ours has a time.", []Pattern{{Part: `^body .*updated_at$`}}},
	}
}

// cyborgQueries are differences in what queries and paths mean.
func cyborgQueries() []Class {
	anyPart := `^(status|text|body.*|header .*|order .*)$`
	return []Class{
		{"empty query values", "An empty value is no condition, or no argument at all. Ours filters by it or refuses it.", []Pattern{
			{Request: `^\w+ [^\n]*[?&](vendor|type|hostname|key|name|bind_state|instance|value|arqs|deployable_id)=,?(&|\n)`, Part: anyPart},
		}},
		{"repeated query keys", "The last value counts; a repeated instance is 400, and nothing happens. Ours takes the first.", []Pattern{
			{Request: `^\w+ [^\n]*[?&](name=[^\n]*&name=|type=[^\n]*&type=|value=[^\n]*&value=|instance=[^\n]*&instance=)`, Part: anyPart},
		}},
		{"policy before arguments", "A caller without the role gets 403 before arguments are read. Ours answers 400 or 404.", []Pattern{
			{Part: `^status$`, Real: `^403 Access was denied`, Ours: `^(400|401|404|405|409|500) `},
		}},
		{"deployable_id=0", "It is no condition. Ours finds nothing.", []Pattern{{Request: `^GET [^\n]*/attributes\?deployable_id=0\n`, Part: `^body`}}},
		{"identifiers in capitals", "MariaDB finds them. Ours answers 404.", []Pattern{
			{Request: `^\w+ /[^\n]*/[0-9A-F]{8}-`, Part: `^status$`, Ours: `^404`},
		}},
		{"malformed identifiers", "GET of an attribute with a malformed uuid is 400. Ours answers 404.", []Pattern{
			{Part: `^(status|text)$`, Real: `^400 Invalid input for field/attribute uuid`, Ours: `^404`},
		}},
		{"the form filters[0].field", "The text lists the legal fields in the order of a set, and a bad value may be 500.", []Pattern{
			{Request: `^\w+ [^\n]*filters`, Part: anyPart},
		}},
		{"limit, marker and sort of lists", "A bad value has another text, or is 500.", []Pattern{
			{Request: `^GET [^\n]*(limit|marker|sort_key|sort_dir)=`, Part: `^(status|text|body.*)$`},
		}},
		{"names in a text", "Of several unknown names the real service names another one.", []Pattern{
			{Request: `^\w+ [^\n]*(name|value|arqs)=[^\n]*,`, Part: `^text$`},
		}},
		{"a format after an id", "`/device_profiles/gpu.json` is the profile in JSON. Ours answers 404.", []Pattern{{Request: `^\w+ [^\n?]*\.json[?\n]`, Part: anyPart}}},
		{"other forms of paths", "Paths without a version, with a double or a final slash.", []Pattern{
			{Request: `^\w+ /accelerator/(devices|deployables|attributes|device_profiles|accelerator_requests)`, Part: anyPart},
			{Request: `^\w+ /accelerator/(v2/|v3)/`, Part: anyPart},
			{Request: `^\w+ /accelerator/v2/[^\n?]*/([?][^\n]*)?\n`, Part: anyPart},
		}},
		{"OPTIONS", "The filter for CORS answers 200 without a token. Ours answers 401 or 405.", []Pattern{{Request: `^OPTIONS `, Part: anyPart}}},
		{"writes to the documents of versions", "The real service answers 405 first. Ours answers 401 or 406.", []Pattern{
			{Request: `^(PUT|PATCH|POST|DELETE) /accelerator/?(v2/?)?\n`, Part: `^(status|text)$`, Real: `^405`},
		}},
		{"HEAD", "HEAD of a public document is 405. Ours answers as GET does, or 401.", []Pattern{{Request: `^HEAD `, Part: anyPart}}},
		{"Accept without JSON", "The real service answers 406, or with a page. Ours answers in JSON.", []Pattern{{Request: `\nAccept: (text/|application/xml)`, Part: anyPart}}},
	}
}

// cyborgForms are differences for bodies that are wrong in form.
func cyborgForms() []Class {
	return []Class{
		{"fields of a profile that are not for callers", "created_at, updated_at, id, links and a null uuid are read from the body: 500. Ours ignores them.", []Pattern{
			{Request: `^POST [^\n]*/device_profiles\n.*"(created_at|updated_at|id|uuid|links|profile_json|other)":`, Part: `^(status|text|body.*)$`},
		}},
		{"values of another type in a profile", "Python fails with 500 and a text of its own, or takes the value. Ours answers 400, or 201 for a number as name.", []Pattern{
			{Request: `^POST [^\n]*/device_profiles\n`, Part: `^(status|text)$`, Real: `^500`},
			{Request: `^POST [^\n]*/device_profiles\n`, Part: `^text$`, Real: `^400`, Ours: `^400 .* is not a text`},
			{Request: `^POST [^\n]*/device_profiles\n.*"(name|description)":(true|-?\d|\[|\{|null)`, Part: `^(status|text|body.*)$`},
		}},
		{"amounts of a profile", "Python's int accepts 1_0 and digits of other scripts, and there is no limit. Ours takes at most 1,024 accelerators.", []Pattern{
			{Request: `^POST [^\n]*/device_profiles\n`, Part: `^(status|text)$`, Ours: `^400 (Resources number|Device profile asks for)`},
		}},
		{"values of another type in device_profile_name", "A number is looked up, and a list is 500.", []Pattern{
			{Request: `^POST [^\n]*/accelerator_requests\n`, Part: `^(status|text)$`, Real: `^(404|500)`, Ours: `^(201|400|404|500)`},
		}},
		{"malformed PATCH of requests", "500 with Python's text, or another text. Ours names the fault.", []Pattern{
			{Request: `^PATCH [^\n]*/accelerator_requests`, Part: `^(status|text)$`, Real: `^500`, Ours: `^(400|404|409|500)`},
			{Request: `^PATCH [^\n]*/accelerator_requests`, Part: `^(status|text)$`, Real: `^400`, Ours: `^(400|500)`},
			{Request: `^PATCH [^\n]*/accelerator_requests`, Part: `^status$`, Real: `^404 ExtArq not found`, Ours: `^400 `},
		}},
		{"the uuid of an attribute", "It may be chosen by the caller. Ours generates it.", []Pattern{
			{Request: `/attributes`, Part: `^body .*(uuid|href)$`},
		}},
		{"malformed attributes", "500 with Python's text, or another text.", []Pattern{
			{Request: `^POST [^\n]*/attributes\n`, Part: `^(status|text)$`, Real: `^500`, Ours: `^(400|500)`},
			{Request: `^POST [^\n]*/attributes\n`, Part: `^(text)$`, Real: `^400`, Ours: `^400`},
		}},
		{"malformed programs", "500 with Python's text, or another text.", []Pattern{{Request: `^PATCH [^\n]*/deployables/`, Part: `^(status|text)$`, Real: `^(400|404|500)`, Ours: `^(400|404|500)`}}},
		{"text of 405", "The real service names the method.", []Pattern{{Part: `^text$`, Real: `^405 `, Ours: `^405 `}}},
	}
}

// cyborgDefault are the differences that ours has on purpose. docs/cyborg-api.md has the reasons.
func cyborgDefault() []Class {
	return []Class{
		{"the caller's mistake, by default", "The real service answers 500 for bad input. Ours answers 400, 404 or 409.", []Pattern{
			{Part: `^status$`, Real: `^500 `, Ours: `^(400|404|405|409) `},
		}},
		{"profiles for nothing, by default", "The real service accepts a profile that no accelerator request can follow. Ours answers 400.", []Pattern{
			{Request: `^POST [^\n]*/device_profiles\n`, Part: `^status$`, Real: `^201`, Ours: `^400`},
		}},
		{"a service user's token, by default", "A caller whose only token has the role service sees the requests of its own project. Ours shows it all projects.", []Pattern{
			{Request: `/accelerator_requests`, Part: `^status$`, Real: `^404 (ExtArq|ARQ) not found`, Ours: `^(202|204|400|409)`},
			{Request: `/accelerator_requests`, Part: `^(status|body .*)$`, Real: `^(404 ExtArq not found|\d+ items)`, Ours: `^(200|\d+ items)`},
			{Request: `^PATCH [^\n]*/accelerator_requests`, Part: `^status$`, Real: `^202`, Ours: `^(404 ExtArq not found|400 .*already has accelerator requests)`},
		}},
	}
}

// cyborgQuirks are the differences that remain with UpstreamQuirks.
func cyborgQuirks() []Class { return nil }
