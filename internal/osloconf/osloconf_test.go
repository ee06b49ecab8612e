package osloconf_test

import (
	"fmt"
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

func TestContinuedLinesOfAnyLength(t *testing.T) {
	t.Parallel()
	for width := range 8 {
		text, many := "[a]\nlist =\n", 1000
		for i := range many {
			text += fmt.Sprintf("%*s0000:%02x:%02x.%d,\n", width+1, "", i>>8, i>>3&0x1f, i&7)
		}
		conf, err := osloconf.Parse([]byte(text + "[b]\nx = 1\n"))
		if err != nil {
			t.Fatal(err)
		}
		if list := conf.List("a", "list"); len(list) != many || list[many-1] != "0000:03:1c.7" {
			t.Errorf("indented by %d: %d parts, want %d", width+1, len(list), many)
		}
	}
}

func TestLinesAreReadLikeOsloConfig(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\uFEFF[a]\nx=1":                        "1",
		"[A]\nx=1\r\n":                          "1", // the case of a section does not count
		"[a]\nx=1\n[b]\nx=2\n[a]\n":             "1",
		"[a]\nx=\n  1\n\n#\ny=2":                "1",
		"[a]\nx = 'a' \n":                       "a",
		"[a]\nx = {\n  # 1\n  }\n":              "{\n# 1\n}", // as oslo.config
		"[a]\nx: a=b\n":                         "a=b",
		"[a]\nx = %(y)s $y ${y} `y` \"\"\"y\n":  "%(y)s $y ${y} `y` \"\"\"y",
		"[a]\nnonsense\n":                       "line 2: it is neither [SECTION] nor OPTION = VALUE",
		"[a]\n= 1\n":                            "line 2: it is neither [SECTION] nor OPTION = VALUE",
		"[a\n":                                  "line 1: it is not [SECTION]",
		"[]\n":                                  "line 1: it is not [SECTION]",
		"[a]\n  x = 1\n":                        "line 2: it is indented and continues no option",
		"[a]\nx = 1\n\n  password = secret\n":   "line 4: it is indented and continues no option",
		"[a]\nx = 1\n# more\n\tpassword\nx = 2": "line 4: it is indented and continues no option",
	} {
		conf, err := osloconf.Parse([]byte(text))
		got, _ := conf.Last("a", "x")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
