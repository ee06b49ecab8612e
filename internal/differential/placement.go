package differential

// Marks of requests to Placement: documented defects that the request asks about. The tests with the build tag oracle do not
// ask about them.
const (
	MarkSharedClass = "amounts of a class that the group without suffix and a suffixed one share, without group_policy=none"
	MarkLostAnchors = "a group without suffix beside others that sharing providers alone could serve (the real one loses anchors)"
	MarkMalformed   = "inventories under a malformed class name that are no record, or have a total that is no number (the real one fails)"
)

// Parts of differences between answers of Placement.
const (
	// PartTextOrder is a text with the same names in another order.
	PartTextOrder = "order of names in the text"
	// PartMoreCandidates is candidates in addition to all candidates of the real service.
	PartMoreCandidates = "candidates beyond the real ones"
	// PartAmounts is candidates in addition to all candidates of the real service, some with other amounts.
	PartAmounts = "amounts of candidates"
)

// Placement are the known differences between Placement 16 and placementsim with UpstreamQuirks.
func Placement() Table {
	return Table{Name: "Placement", Classes: []Class{
		{"order of traits, aggregates and candidates", "The real service has no order there. Ours has one that stays.", []Pattern{
			{Part: `^order (.*\.)?(traits|aggregates)$`},
			{Request: `^GET /allocation(_|%5F)candidates\?`, Part: `^order \.allocation_requests(\[\]\.(allocations|mappings\.\w*))?$`},
		}},
		{"order of names in a text", "Python lists names that are in a set in any order. Ours sorts them, or keeps the order of the request.", []Pattern{{Part: `^` + PartTextOrder + `$`}}},
		{"texts of the database", "The real service quotes its database.", []Pattern{
			{Part: `^text$`, Real: `^409 .*Update conflict: \(sqlite3\.IntegrityError\) UNIQUE constraint failed: inventories`, Ours: `Update conflict: resource provider [0-9a-f-]+ already has an inventory of \w+\s`},
		}},
		{"number of a provider", "The text of the failure for a sharing provider that is not a root is the number of its row, which a database may give again.", []Pattern{
			{Request: `^GET /allocation(_|%5F)candidates\?`, Part: `^text$`, Real: `^500 .*operation\.\n\n \d+  $`, Ours: `operation\.\n\n \d+  $`},
		}},
		{"numbers that are not finite", "Python's json reads NaN and Infinity, and takes 1e999 for infinite. Ours refuses the former, and cuts the latter at the greatest float.", []Pattern{
			{Request: `\n[^\n]*(NaN|Infinity)[^\n]*$`, Part: `^(status|text)$`, Ours: `^400 .*Malformed JSON`},
			{Request: `\n[^\n]*NaN[^\n]*$`, Part: `^body \.errors\[\]\.schema$`, Ours: `^absent$`},
			{Request: `\n[^\n]*1e999[^\n]*$`, Part: `^text$`, Real: `\binf\b`, Ours: `1\.7976931348623157e\+308`},
			{Request: `\n[^\n]*1e999[^\n]*$`, Part: `^body \.errors\[\]\.schema$`},
		}},
		{"generations beyond 2^53", "A text has them as they were sent. Ours are cut off.", []Pattern{
			{Part: `^text$`, Real: `^409 .*(but got|given:) -?(\d{16,}|[\d.]+e\+\d+)\s`, Ours: `^409 .*(but got|given:) -?9007199254740992\s`},
		}},
		{"first of several faulty inventories", "The real service names the first in the body, ours the first by name.", []Pattern{
			{Request: `^PUT /resource(_|%5F)providers/[^ ]*/inventories`, Part: `^text$`, Real: `^400 .*(Invalid inventory for '\w+'|No such resource class \w+)`, Ours: `^400 .*(Invalid inventory for '\w+'|No such resource class \w+)`},
		}},
		{"malformed inventories of a malformed class", "The real service does not check them, and fails. Ours answers 400.", []Pattern{{Part: `^status$`, Real: `^500`, Ours: `^400`, Mark: MarkMalformed}}},
		{"amounts of a class that two groups share", "The real service adds up the amounts of the group without suffix and of a suffixed one wrongly. [placement-api.md](../placement-api.md) has the defect.", []Pattern{
			{Part: `^(` + PartAmounts + `|` + PartMoreCandidates + `)$`, Mark: MarkSharedClass},
			{Part: `^body \.provider_summaries\.[0-9a-f-]+$`, Real: `^absent$`, Mark: MarkSharedClass},
		}},
		{"candidates of sharing providers alone", "The real service loses candidates of a group without suffix that sharing providers alone serve, next to other groups.", []Pattern{
			{Part: `^` + PartMoreCandidates + `$`, Mark: MarkLostAnchors},
			{Part: `^body \.provider_summaries\.[0-9a-f-]+$`, Real: `^absent$`, Mark: MarkLostAnchors},
		}},
	}}
}
