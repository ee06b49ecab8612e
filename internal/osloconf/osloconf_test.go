package osloconf_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/internal/osloconf"
)

func TestOptionsFollowOsloConfig(t *testing.T) {
	t.Parallel()
	conf, err := osloconf.Parse([]byte("host = early\n[a]\nx = 1\nx = 2\nx = 1\nempty =\nquoted = \"a b\"\ncolon: c\nback = c:\\\nnext = d\n[a.b]\ny=1\n[b]\nmany = one\n  two\n\tthree\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		section, option, want string
		set                   bool
	}{
		{"DEFAULT", "host", "early", true},
		{"a", "x", "1", true}, // the last one counts
		{"a", "empty", "", true},
		{"a", "none", "", false},
		{"a", "quoted", "a b", true},
		{"a", "colon", "c", true},
		{"a", "back", `c:\`, true},
		{"a", "next", "d", true},
		{"a", "X", "", false},
		{"a.b", "x", "", false}, // sections do not inherit
		{"none", "x", "", false},
		{"b", "many", "one\ntwo\nthree", true},
	} {
		got, set := conf.Last(tt.section, tt.option)
		if got != tt.want || set != tt.set {
			t.Errorf("[%s] %s = %q, %t; want %q, %t", tt.section, tt.option, got, set, tt.want, tt.set)
		}
	}
	if got := conf.List("a", "empty"); got == nil || len(got) > 0 {
		t.Errorf("an empty list is %v, want one that is set", got)
	}
	if got := conf.List("a", "none"); got != nil {
		t.Errorf("a list that is not set is %v, want nil", got)
	}
}

func TestALineWithoutAnOptionIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := osloconf.Parse([]byte("[a]\nnonsense\n")); err == nil {
		t.Error("accepted")
	}
}
