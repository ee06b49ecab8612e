package differential

// Marks of requests to Placement: documented defects that the request asks about. Those but the last are not asked by the
// tests with the build tag oracle.
const (
	MarkSharedClass   = "amounts of a class that the group without suffix and a suffixed one share, unless group_policy is none"
	MarkLostAnchors   = "a group without suffix beside others that sharing providers alone could serve (the real one loses anchors)"
	MarkNestedSharing = "a group without suffix where a sharing provider is not a root (the real one can fail)"
	MarkOnlyNegative  = "groups without resources that have only negative conditions or in_tree"
	MarkInTree        = "in_tree of groups without resources"
	MarkHopeless      = "unknown classes and traits beside conditions that may empty the answer before they are looked up"
	MarkHalfValid     = "limit and group_policy repeated, one valid and one not (the real one judges the last and uses the first)"
	MarkLike          = "startswith with wildcards or small letters (SQL's LIKE)"
	MarkMalformed     = "inventories under a malformed class name and without total (the real one fails)"
	MarkSeveral       = "several faults" // the services may name another one first
)

const (
	candidatesOrStatus  = `^(status|limit|body \.(allocation_requests|provider_summaries))`
	placementCandidates = `^GET /allocation_candidates\?`
)

// Placement are the known differences between Placement 16 and placementsim.
func Placement() Table {
	return Table{Name: "Placement", Classes: append(placementForms(), placementAnswers()...)}
}

// placementForms are differences of form: orders, texts, headers.
func placementForms() []Class {
	return []Class{
		{"order of traits, aggregates and candidates", "The real service has no order there. Ours has one that stays.", []Pattern{
			{Part: `^order .*\.(traits|aggregates|allocation_requests|allocations|mappings)\b`},
		}},
		{"numbers in the answer to a write of inventories", "The real service echoes numbers as they were sent, such as 2 for an allocation ratio. Ours writes the stored number, 2.0.", []Pattern{
			{Request: `^(PUT|POST) /resource_providers/[^ ]*/inventories`, Part: `^body .*\.(allocation_ratio|total|reserved|min_unit|max_unit|step_size)$`, Real: `^\d+(\.\d+)?$`, Ours: `^\d+(\.\d+)?$`},
		}},
		{"the schema in a text", "The text of a failed validation ends with the schema: keys in the order of the source file, in the form of the installed jsonschema. Ours sorts keys.", []Pattern{
			{Part: `^body \.errors\[\]\.schema$`},
			{Part: `^text$`, Real: `<html>.*Failed validating`, Ours: `<html>.*Failed validating`},
		}},
		{"why a body is not JSON", "The installed Python words the reason.", []Pattern{{Part: `^text$`, Real: `Malformed JSON`, Ours: `Malformed JSON`}}},
		{"texts of the database", "The real service quotes its database.", []Pattern{{Part: `^text$`, Real: `Update conflict: \(.*(IntegrityError|OperationalError)`}}},
		{"Vary of errors", "Errors that leave a handler as exceptions lack the header Vary. Ours have it.", []Pattern{{Part: `^header Vary$`, Real: `^$`, Ours: `^openstack-api-version$`}}},
		{"body of a 401", "The noauth middleware of the real service has a text of its own.", []Pattern{{Part: `^body \.message$`}, {Part: `^(text|body .*|header .*)$`, Real: `This server could not verify`}}},
		{"text for system scope", "The real service names only the rule.", []Pattern{{Request: `\nOpenStack-System-Scope: all`, Part: `^text$`, Real: `^403 .*placement:`, Ours: `^403 `}}},
		{"type of HEAD", "The answer to HEAD has the type text/html. Ours has that of GET.", []Pattern{{Request: `^HEAD `, Part: `^header Content-Type$`}}},
		{"refused resource that is named", "Of several resources that cannot be allocated, the real service names the first in an order of its own.", []Pattern{
			{Part: `^text$`, Real: `Unable to allocate inventory: `, Ours: `Unable to allocate inventory: `},
			{Part: `^body \.errors\[\]\.code$`, Real: `placement\.`, Ours: `placement\.`, Mark: MarkSeveral},
		}},
	}
}

// placementAnswers are differences of status or content.
func placementAnswers() []Class {
	return []Class{
		{"empty token", "`X-Auth-Token:` without a value is a user without a name, who may do nothing: 403. Ours answers 401.", []Pattern{
			{Request: `\nX-Auth-Token: (\n|$)`, Part: `.`},
		}},
		{"percent-encoded routes", "`/resource%5Fproviders` is a route. Ours answers 404.", []Pattern{{Request: `^\w+ /[^ ?\n]*%5F`, Part: `.`}}},
		{"negative microversions", "`placement 1.-1` is a version that the service lacks: 406. Ours answers 400.", []Pattern{{Request: `placement 1\.-1`, Part: `^status$`, Real: `^406`, Ours: `^400`}}},
		{"Content-Type in capitals", "`APPLICATION/JSON` is 415. Ours accepts it.", []Pattern{{Request: `\nContent-Type: APPLICATION/JSON`, Part: `^status$`, Real: `^415`}}},
		{"malformed Accept", "`Accept: bad` is ignored. Ours answers 406.", []Pattern{{Request: `\nAccept: bad`, Part: `.`}}},
		{"bytes that are not UTF-8", "`%ff` in a query is 400 with Python's text, or 500.", []Pattern{{Request: `%ff`, Part: `^(status|text|body .*)$`}}},
		{"newline after a uuid", "A uuid with `%0A` after it is accepted. Ours answers 400.", []Pattern{{Request: `%0A`, Part: `^(status|text|body .*)$`}}},
		{"amounts with an underscore", "Python's int accepts `VCPU:1_0`. Ours answers 400.", []Pattern{{Request: `VCPU:1_0`, Part: `^(status|text)$`, Ours: `^400`}}},
		{"unknown names after an empty group", "The real service looks names up group by group, and stops at the first group without providers: 200 with nothing. Ours answers 400.", []Pattern{
			{Part: `^status$`, Real: `^200`, Ours: `^400 .*No such (trait|resource class)`},
			{Part: `^text$`, Mark: MarkHopeless},
		}},
		{"unknown names in several groups", "The real service names the unknown names of the first group, ours all.", []Pattern{{Part: `^text$`, Real: `No such trait`, Ours: `No such trait`}}},
		{"keys given twice in a text", "A text that lists keys names a repeated key twice. Ours names it once.", []Pattern{{Part: `^text$`, Real: `(Conflicting required and forbidden traits|not found in)`}}},
		{"amounts of a class that two groups share", "The real service adds up the amounts of the group without suffix and of a suffixed one wrongly. [placement-api.md](placement-api.md) has the defect.", []Pattern{
			{Request: placementCandidates, Part: candidatesOrStatus, Mark: MarkSharedClass},
		}},
		{"a sharing provider that is not a root", "The real service answers 500, or loses candidates.", []Pattern{{Request: placementCandidates, Part: candidatesOrStatus, Mark: MarkNestedSharing}}},
		{"groups without resources", "With only in_tree or negative conditions the real service finds nothing, or forgets in_tree.", []Pattern{
			{Request: placementCandidates, Part: candidatesOrStatus, Mark: MarkOnlyNegative},
			{Request: placementCandidates, Part: candidatesOrStatus, Mark: MarkInTree},
		}},
		{"candidates of sharing providers alone", "The real service loses candidates of a group without suffix that sharing providers alone serve, next to other groups.", []Pattern{
			{Request: placementCandidates, Part: candidatesOrStatus, Mark: MarkLostAnchors},
		}},
		{"repeated limit and group_policy", "Of repeated values the real service judges the last and uses the first.", []Pattern{{Part: `^(status|text|limit|body .*)$`, Mark: MarkHalfValid}}},
		{"wildcards of startswith", "SQL's LIKE has wildcards and ignores the case.", []Pattern{{Part: `^body .*traits`, Mark: MarkLike}}},
		{"malformed class without total", "The real service answers 500 for inventories under a malformed class name that lack total.", []Pattern{{Part: `^status$`, Real: `^500`, Mark: MarkMalformed}}},
		{"fault that is named", "Of several faults in one request the services may name different ones.", []Pattern{
			{Part: `^text$`, Mark: MarkSeveral},
			{Part: `^text$`, Real: `same_subtree`, Ours: `same_subtree`},
		}},
	}
}
