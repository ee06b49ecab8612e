package differential

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Difference is one way in which two answers to a request differ.
type Difference struct {
	// Where are the flags that repeat the world.
	Where string
	// Request is the request as text: the method and the target on the first line, then headers, then the body.
	Request string
	// Part is what differs: "status", "text" (of an error), "header NAME", "body PATH" or "order PATH" (of a list).
	Part string
	// Real and Ours are the two values. A status is followed by the text of its error.
	Real, Ours string
	// Marks are the names of the documented defects of the real service that the request touches, and [SameText].
	Marks []string
}

// String is the difference for a reader.
func (d Difference) String() string {
	marks := ""
	if len(d.Marks) > 0 {
		marks = "\nmarks: " + strings.Join(d.Marks, "; ")
	}
	return fmt.Sprintf("%s\n%s\nreal: %s\nours: %s%s\n(%s)", d.Request, d.Part, d.Real, d.Ours, marks, d.Where)
}

// Class is a known difference.
type Class struct {
	// Name is unique in its table.
	Name string
	// Why says what the real service does, and why ours differs.
	Why string
	// Of are the differences that belong to the class: each pattern is a set.
	Of []Pattern
}

// Pattern matches differences. Request, Part, Real and Ours are regular expressions, and an empty one matches anything.
// Mark, if not empty, is the mark that the difference must have.
type Pattern struct {
	Request, Part, Real, Ours, Mark string
}

// Table lists the known differences between a service and its simulation.
type Table struct {
	// Name of the service, with the mode of the simulation if it is not the default.
	Name string
	// Classes in the order in which they are tried: a difference belongs to the first that matches.
	Classes []Class
}

// Tables are all tables, in the order of docs/dev/differential.md.
func Tables() []Table { return []Table{Placement(), Cyborg(), CyborgQuirks(), Keystone()} }

// Judge assigns differences to the classes of a table and counts them.
type Judge struct {
	table    Table
	compiled [][]compiledPattern // by class
	counts   map[string]int
	requests int
	unlisted []Difference
	where    string
}

type compiledPattern struct {
	request, part, real, ours *regexp.Regexp
	mark                      string
}

func (p compiledPattern) matches(d Difference) bool {
	return (p.mark == "" || slices.Contains(d.Marks, p.mark)) && p.part.MatchString(d.Part) &&
		p.request.MatchString(d.Request) && p.real.MatchString(d.Real) && p.ours.MatchString(d.Ours)
}

// NewJudge returns a judge with all counts zero. The error names a pattern that is not a regular expression.
func NewJudge(table Table) (*Judge, error) {
	j := &Judge{table: table, counts: make(map[string]int)}
	for _, class := range table.Classes {
		j.counts[class.Name] = 0
		var list []compiledPattern
		for _, p := range class.Of {
			compiled, err := p.compile()
			if err != nil {
				return nil, fmt.Errorf("class %q: %w", class.Name, err)
			}
			list = append(list, compiled)
		}
		j.compiled = append(j.compiled, list)
	}
	return j, nil
}

func (p Pattern) compile() (compiledPattern, error) {
	c := compiledPattern{mark: p.Mark}
	for _, field := range []struct {
		to   **regexp.Regexp
		text string
	}{{&c.request, p.Request}, {&c.part, p.Part}, {&c.real, p.Real}, {&c.ours, p.Ours}} {
		expression, err := regexp.Compile("(?s)" + field.text)
		if err != nil {
			return compiledPattern{}, err
		}
		*field.to = expression
	}
	return c, nil
}

// At says in which world of a seed the next differences are found.
func (j *Judge) At(seed uint64, world int) {
	j.where = fmt.Sprintf("-differential.seed %d -differential.world %d", seed, world)
}

// Add counts the differences of the two answers to one request.
func (j *Judge) Add(differences []Difference) {
	j.requests++
	met := make(map[string]bool)
	for _, d := range differences {
		if name, ok := j.classOf(d); ok {
			met[name] = true
		} else {
			d.Where = j.where
			j.unlisted = append(j.unlisted, d)
		}
	}
	for name := range met {
		j.counts[name]++ // once for each answer
	}
}

func (j *Judge) classOf(d Difference) (string, bool) {
	for i, list := range j.compiled {
		if slices.ContainsFunc(list, func(p compiledPattern) bool { return p.matches(d) }) {
			return j.table.Classes[i].Name, true
		}
	}
	return "", false
}

// Report returns the counts.
func (j *Judge) Report() Report {
	return Report{Table: j.table.Name, Requests: j.requests, Unlisted: len(j.unlisted), Counts: j.counts}
}
