package differential

import "slices"

// Cyborg are the known differences between Cyborg 17 and the default of fakecyborg.
func Cyborg() Table {
	return Table{Name: "Cyborg", Classes: slices.Concat(cyborgBoth(), cyborgDefault())}
}

// CyborgQuirks are the known differences between Cyborg 17 and fakecyborg with UpstreamQuirks.
func CyborgQuirks() Table {
	return Table{Name: "Cyborg with upstream quirks", Classes: slices.Concat(cyborgBoth(), cyborgQuirks())}
}

// cyborgBoth are differences of both modes.
func cyborgBoth() []Class {
	return []Class{
		{"order of hardware", "The conductor creates devices in the order of a set. Ours keeps the order of the report.", []Pattern{
			{Request: `^GET [^\n?]*/(devices|deployables|attributes)`, Part: `^order \.(devices|deployables|attributes)$`},
		}},
		{"numbers of deployables", "They follow that order, and a text has one.", []Pattern{
			{Request: `^PATCH `, Part: `^text$`, Real: `^404 AttachHandle not found Matching deployable_id \d+$`, Ours: `^404 AttachHandle not found Matching deployable_id \d+$`},
		}},
		{"legal names in a text", "They are listed in the order of a set.", []Pattern{
			{Part: `^text$`, Real: `^400 Invalid input for field/attribute (field|op)\. Value: '[^']*'\. Value should be one of: `, Ours: `^400 Invalid input for field/attribute (field|op)\. Value: '[^']*'\. Value should be one of: `},
		}},
		{"amounts of a profile", "There is no limit. Ours takes at most 1,024 accelerators.", []Pattern{
			{Request: `^POST [^\n]*/device_profiles`, Part: `^status$`, Real: `^(201 $|409 A device_profile with name|500 DeviceProfile with uuid)`, Ours: `^400 Device profile asks for more than 1024 accelerators$`},
		}},
		{"NaN", "It is a number. Ours refuses it, as it is not JSON.", []Pattern{
			{Request: `\n\[NaN\]$`, Part: `^status$`, Real: `^500 'float' object has no attribute 'get'$`, Ours: `^400 Request is not in valid JSON format$`},
		}},
		{"a list as the name of a profile", "A list of one text is looked up, and not found.", []Pattern{
			{Request: `^POST [^\n]*/accelerator_requests.*"device_profile_name":\[`, Part: `^status$`, Real: `^404 Device Profile not found with name=\[`, Ours: `^(400|500) device_profile_name: \[.*\] is not a text$`},
		}},
		{"0 as the name of a profile", "MariaDB compares names with a number as numbers: 500 for several.", []Pattern{
			{Request: `^POST [^\n]*/accelerator_requests.*"device_profile_name":0`, Part: `^status$`, Real: `^500 Multiple rows were found`, Ours: `^404 Device Profile not found with name=0$`},
		}},
		{"projects that are not UUIDs", "A request with such a project cannot be shown. Ours shows it.", []Pattern{
			{Request: `^GET [^\n]*/accelerator_requests`, Part: `^status$`, Real: `^400 Expected a uuid but received x\.$`, Ours: `^200 $`},
		}},
		{"values of a bind that are a list or an object", "The real service looks for the request first. Ours checks all values before.", []Pattern{
			{Request: `^PATCH [^\n]*/accelerator_requests`, Part: `^(status|text)$`, Real: `^(404 ExtArq not found|500 Bad state|400 Couldn't apply patch\. Reason: Instance)`,
				Ours: `^(400|500) A string is required in field \w+, not a (dict|list)$`},
		}},
		{"texts of refused events", "The text has the events and Nova's body. Ours has Nova's status.", []Pattern{
			{Request: `^PATCH `, Part: `^text$`, Real: `^400 Bad API response from Nova for os-server-external-events API\. Details: Failed to send events`,
				Ours: `^400 Bad API response from Nova for os-server-external-events API\. Details: status 400$`},
		}},
		{"a path before a collection", "`/v2//COLLECTION` and `/v3/COLLECTION` are the collection, with an argument. Ours has no such route.", []Pattern{
			{Request: `^\w+ /accelerator/(v2//|v3/)`, Part: `^status$`, Ours: `^40[45] `},
		}},
	}
}

// cyborgDefault are the differences that ours has on purpose. docs/cyborg-api.md has the reasons.
func cyborgDefault() []Class {
	// Whoever is not an administrator, and has the token of a service.
	tenant := `/accelerator_requests.*\nX-Auth-Token: TOKEN-OF-(DEMO|NOVA|READER|MANAGER|ALICE)\n?`
	service := tenant + `.*X-Service-Token: TOKEN-OF-NOVA`
	return []Class{
		{"the caller's mistake, by default", "The real service answers 500 for bad input. Ours answers 400 with the same text, or 404.", []Pattern{
			{Part: `^status$`, Real: `^500 ([^BD]|Bad state: \w* for ARQ: None|DeviceProfile n)`, Ours: `^400 `, Mark: SameText},
			{Part: `^status$`, Real: `^500 \(pymysql.*Data too long for column`, Ours: `^400 Data too long for column '\w+' at row 1$`},
			{Part: `^status$`, Real: `^500 \(pymysql.*Column '\w+' cannot be null`, Ours: `^400 Column '\w+' cannot be null$`},
			{Request: `^POST [^\n]*/accelerator_requests`, Part: `^status$`, Real: `^500 \(pymysql`, Ours: `^400 device_profile_name: .* is not a text$`},
			{Request: `^POST [^\n]*/attributes`, Part: `^status$`, Real: `^500 \(pymysql.*foreign key`, Ours: `^404 FOREIGN KEY constraint failed: there is no deployable`},
		}},
		{"conflicts, by default", "The real service answers 500 for a request in a wrong state, a uuid that is taken and a profile in use. Ours answers 409.", []Pattern{
			{Part: `^status$`, Real: `^500 (Bad state: \w+ for ARQ: [\w-]+\.|DeviceProfile with uuid)`, Ours: `^409 `, Mark: SameText},
			{Request: `^DELETE [^\n]*/device_profiles`, Part: `^status$`, Real: `^500 \(pymysql.*foreign key`, Ours: `^409 Cannot delete device profile \S+: \d+ accelerator requests use it$`},
			{Request: `^POST [^\n]*/attributes`, Part: `^status$`, Real: `^500 \(pymysql.*Duplicate entry`, Ours: `^409 `},
		}},
		{"profiles for nothing, by default", "The real service accepts a profile that no accelerator request can follow. Ours answers 400.", []Pattern{
			{Request: `^POST [^\n]*/device_profiles`, Part: `^(status|text)$`, Real: `^(201 $|409 A device_profile with name|400 Expected a uuid|500 DeviceProfile with uuid|500 \(pymysql.*Data too long)`,
				Ours: `^400 (Device profile group (\d+|must contain)|Device profile name must|Expected a uuid)`},
		}},
		{"binds that cannot be shown, by default", "The real service stores a host, provider or instance that makes the request impossible to show. Ours answers 400.", []Pattern{
			{Request: `^PATCH [^\n]*/accelerator_requests`, Part: `^(status|text)$`,
				Real: `^(202 $|404 (ExtArq|Deployable) not found|400 (Bad API response from Nova|Couldn't apply patch. Reason: Instance)|500 (\(pymysql.*Data too long|Bad state))`,
				Ours: `^400 Couldn't apply patch\. Reason: (hostname has \d+ characters|(device_rp_uuid|instance_uuid): Expected a uuid|project_id has more)`},
		}},
		{"binds to an unknown provider, by default", "The request stays BindStarted. Ours is BindFailed.", []Pattern{
			{Part: `^body \.(arqs\[\]\.)?state$`, Real: `^"BindStarted"$`, Ours: `^"BindFailed"$`},
			{Request: `^PATCH `, Part: `^status$`, Real: `^500 Bad state: BindStarted for ARQ`, Ours: `^409 Bad state: BindFailed for ARQ`},
			{Request: `^GET [^\n]*bind_state=resolved`, Part: `^status$`, Real: `^423 `, Ours: `^200 $`},
			{Request: `^GET [^\n]*bind_state=resolved`, Part: `^body \.arqs$`, Ours: `"state":"BindFailed"`},
		}},
		{"a request deleted twice in one DELETE, by default", "The second deletion is 404. Ours answers 204.", []Pattern{
			{Request: `^DELETE [^\n]*[?]arqs=[^&\n]+,`, Part: `^status$`, Real: `^404 ARQ not found with uuids \['[^',]+'\]$`, Ours: `^204 $`},
		}},
		{"long attributes, by default", "The real service takes keys and values of up to 65,535 bytes. Ours takes 255, as traits have.", []Pattern{
			{Request: `^POST [^\n]*/attributes\n.*x{256}`, Part: `^status$`, Real: `^(201 $|500 \(pymysql)`, Ours: `^400 Data too long for column '(key|value)' at row 1$`},
		}},
		{"the owner after a bind, by default", "A bind without project_id by an administrator moves the request to the administrator's project. Ours keeps its owner, who goes on to see it.", []Pattern{
			{Request: `^GET [^\n]*` + tenant, Part: `^body \.arqs$`, Real: `^\d+ items`, Ours: `^\d+ items`},
			{Request: `^GET [^\n]*` + tenant, Part: `^status$`, Real: `^404 ExtArq not found`, Ours: `^200 $`},
			{Request: `^DELETE [^\n]*` + tenant, Part: `^status$`, Real: `^404 (ExtArq|ARQ) not found`, Ours: `^(204 $|403 This operation requires a service token)`},
		}},
		{"a service user's token, by default", "A caller whose only token has the role service sees the requests of its own project. Ours shows it all projects.", []Pattern{
			{Request: `^(PATCH|DELETE) [^\n]*` + service, Part: `^(status|text)$`, Real: `^404 (ExtArq|ARQ) not found`, Ours: `^(20[24] $|404 (ExtArq|ARQ|Deployable|AttachHandle) not found|409 Bad state|400 (Couldn't apply patch|Bad API))`},
			{Request: `^PATCH [^\n]*` + service, Part: `^status$`, Real: `^(202 $|404 (Deployable|AttachHandle) not found|400 Bad API response from Nova)`, Ours: `^400 Couldn't apply patch\. Reason: Instance [\w-]+ already has accelerator requests`},
			{Request: `^GET [^\n?]*[?]instance=[^\n]*\n.*X-Service-Token: TOKEN-OF-NOVA`, Part: `^body \.arqs$`, Real: `^\d+ items`, Ours: `^\d+ items`},
			{Request: `^GET [^\n?]*[?]instance=[^\n]*\n.*X-Service-Token: TOKEN-OF-NOVA`, Part: `^status$`, Real: `^200 $`, Ours: `^423 `},
		}},
	}
}

// cyborgQuirks are the differences that remain with UpstreamQuirks.
func cyborgQuirks() []Class {
	return []Class{
		{"texts of the database", "The text quotes the database, also for a profile in use. Ours says what is wrong.", []Pattern{
			{Request: `^DELETE [^\n]*/device_profiles`, Part: `^text$`, Real: `^500 \(pymysql.*foreign key`, Ours: `^500 Cannot delete device profile \S+: \d+ accelerator requests use it$`},
			{Part: `^text$`, Real: `^500 \(pymysql.*Data too long for column`, Ours: `^500 Data too long for column '\w+' at row 1$`},
			{Part: `^text$`, Real: `^500 \(pymysql.*Column '\w+' cannot be null`, Ours: `^500 Column '\w+' cannot be null$`},
			{Request: `^POST [^\n]*/attributes`, Part: `^text$`, Real: `^500 \(pymysql.*foreign key`, Ours: `^500 FOREIGN KEY constraint failed: there is no deployable`},
			{Request: `^POST [^\n]*/attributes`, Part: `^text$`, Real: `^500 \(pymysql.*Duplicate entry`, Ours: `^500 `},
			{Request: `^POST [^\n]*/accelerator_requests`, Part: `^text$`, Real: `^500 \(pymysql`, Ours: `^500 device_profile_name: .* is not a text$`},
		}},
	}
}
