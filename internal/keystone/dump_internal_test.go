package keystone

import (
	"reflect"
	"testing"
)

// Whoever adds a field to the state decides here whether it is in the dump, and in the
// random histories that are compared after one.
func TestEveryFieldOfTheStateIsDumpedOrDerived(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		of     any
		fields map[string]string
	}{
		{Server{}, map[string]string{
			"cfg": "configuration", "clock": "configuration", "directory": "derived from the configuration",
			"tokens": "dumped", "grants": "dumped", "service": "configuration; its ids are dumped",
		}},
		{tokenStore{}, map[string]string{
			"seed": "configuration", "lifetime": "configuration", "mu": "a lock", "next": "dumped", "living": "dumped",
			"sweep": "derived from the number of tokens: it decides only when expired ones are dropped, which are as good as gone",
		}},
		{token{}, map[string]string{
			"user": "dumped by name", "project": "dumped by name", "system": "dumped", "roles": "derived from user and scope, or from the credential",
			"methods": "dumped", "credential": "dumped by id", "auditIDs": "dumped", "issued": "dumped", "expires": "dumped",
		}},
		{credentialStore{}, map[string]string{"seed": "configuration", "mu": "a lock", "made": "dumped", "list": "dumped"}},
		{credential{}, map[string]string{
			"id": "dumped", "name": "dumped", "description": "dumped", "secret": "dumped", "user": "dumped by name", "project": "dumped by name",
			"roles": "dumped", "unrestricted": "dumped", "expires": "dumped", "gone": "never set in the list; tokens of one that is gone are left out",
		}},
	} {
		of := reflect.TypeOf(tt.of)
		for i := range of.NumField() {
			if tt.fields[of.Field(i).Name] == "" {
				t.Errorf("%s.%s: is it dumped?", of, of.Field(i).Name)
			}
		}
		if of.NumField() != len(tt.fields) {
			t.Errorf("%s has %d fields, and %d are listed", of, of.NumField(), len(tt.fields))
		}
	}
}
