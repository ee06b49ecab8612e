package ledger_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

func TestEffectInAnAllocation(t *testing.T) {
	t.Parallel()
	type held = placement.Allocation
	a, b, before, port := on("a", 2), on("b", 3), on("node", 4), on("nic", 5)
	sum := placement.Add
	nothing := placement.Resources{}
	amount := func(before, added, sent placement.Resources, generation *int) *ledger.Amount {
		return &ledger.Amount{Before: before, Added: added, Sent: sent, Generation: generation}
	}
	certain, known := amount(nil, a, nil, at(3)), amount(nil, a, nil, nil)
	running := amount(before, a, nil, at(3))
	lost, lostWith := amount(nil, nil, a, nil), amount(before, nil, a, at(4))
	second := amount(nil, a, b, at(4))
	for _, c := range []struct {
		name   string
		kind   ledger.Kind
		amount *ledger.Amount
		held   held
		shown  ledger.Shown
		rest   placement.Resources
	}{
		{"nothing is held", ledger.Claim, certain, held{}, ledger.Absent, nil},
		{"as wanted", ledger.Claim, certain, held{Resources: a, Generation: at(3)}, ledger.Present, nothing},
		{"as wanted, written again", ledger.Claim, certain, held{Resources: a, Generation: at(5)}, ledger.Present, nothing},
		{"with a port", ledger.Claim, certain, held{Resources: sum(a, port), Generation: at(4)}, ledger.Present, port},
		{"of the same provider", ledger.Claim, certain, held{Resources: on("a", 7), Generation: at(4)}, ledger.Present, on("a", 5)},
		{"created again", ledger.Claim, certain, held{Resources: a, Generation: at(2)}, ledger.Others, a},
		{"without a generation", ledger.Claim, certain, held{Resources: a}, ledger.Others, a},
		{"less", ledger.Claim, certain, held{Resources: on("a", 1), Generation: at(4)}, ledger.Others, on("a", 1)},
		{"on another host", ledger.Claim, certain, held{Resources: b, Generation: at(4)}, ledger.Others, b},
		{"no generation is known", ledger.Claim, known, held{Resources: a, Generation: at(1)}, ledger.Present, nothing},
		{"no generation at all", ledger.Claim, known, held{Resources: a}, ledger.Present, nothing},

		{"running, without it", ledger.Claim, running, held{Resources: before, Generation: at(2)}, ledger.Absent, before},
		{"running, with it", ledger.Claim, running, held{Resources: sum(before, a), Generation: at(3)}, ledger.Present, before},
		{"running, with it and a port", ledger.Claim, running, held{Resources: sum(sum(before, a), port), Generation: at(4)}, ledger.Present, sum(before, port)},
		{"running, changed by another client", ledger.Claim, running, held{Resources: sum(on("node", 1), a), Generation: at(4)}, ledger.Present, on("node", 1)},
		{"running, moved", ledger.Claim, running, held{Resources: b, Generation: at(4)}, ledger.Others, b},
		{"running, nothing", ledger.Claim, running, held{}, ledger.Absent, nil},
		{"running, more of the same provider", ledger.Claim, amount(on("a", 2), on("a", 1), nil, at(3)), held{Resources: on("a", 3), Generation: at(3)}, ledger.Present, on("a", 2)},
		{"running, no more of the same provider", ledger.Claim, amount(on("a", 2), on("a", 1), nil, at(3)), held{Resources: on("a", 2), Generation: at(2)}, ledger.Absent, on("a", 2)},

		{"lost, nothing", ledger.Claim, lost, held{}, ledger.Awaited, nothing},
		{"lost, as wanted", ledger.Claim, lost, held{Resources: a, Generation: at(1)}, ledger.Present, nothing},
		{"lost, with a port at once", ledger.Claim, lost, held{Resources: sum(a, port), Generation: at(1)}, ledger.Absent, sum(a, port)},
		{"lost, with a port since", ledger.Claim, lost, held{Resources: sum(a, port), Generation: at(2)}, ledger.Others, sum(a, port)},
		{"lost, with a port after the generation", ledger.Claim, amount(nil, nil, a, at(5)), held{Resources: sum(a, port), Generation: at(6)}, ledger.Absent, sum(a, port)},
		{"lost, with a port later", ledger.Claim, amount(nil, nil, a, at(5)), held{Resources: sum(a, port), Generation: at(7)}, ledger.Others, sum(a, port)},
		{"lost, more, without a generation", ledger.Claim, lost, held{Resources: sum(a, port)}, ledger.Absent, sum(a, port)},
		{"lost, another one", ledger.Claim, lost, held{Resources: b, Generation: at(9)}, ledger.Absent, b},
		{"lost, running, under way", ledger.Claim, lostWith, held{Resources: before, Generation: at(4)}, ledger.Awaited, before},
		{"lost, running, overtaken", ledger.Claim, lostWith, held{Resources: before, Generation: at(5)}, ledger.Absent, before},
		{"lost, running, as wanted", ledger.Claim, lostWith, held{Resources: sum(before, a), Generation: at(5)}, ledger.Present, before},
		{"lost, running, without a generation", ledger.Claim, lostWith, held{Resources: before}, ledger.Absent, before},
		{"lost, running, overtaken by a port", ledger.Claim, lostWith, held{Resources: sum(before, port), Generation: at(5)}, ledger.Absent, sum(before, port)},
		{"lost, running, followed by a port", ledger.Claim, lostWith, held{Resources: sum(sum(before, a), port), Generation: at(6)}, ledger.Others, sum(sum(before, a), port)},
		{"lost, running, deleted", ledger.Claim, lostWith, held{Resources: placement.Resources{}, Generation: nil}, ledger.Awaited, nothing},

		{"second host, under way", ledger.Claim, second, held{Resources: a, Generation: at(4)}, ledger.Awaited, nothing},
		{"second host, under way beside a port", ledger.Claim, second, held{Resources: sum(a, port), Generation: at(4)}, ledger.Awaited, port},
		{"second host, the first remains", ledger.Claim, second, held{Resources: sum(a, port), Generation: at(5)}, ledger.Present, port},
		{"second host, as wanted", ledger.Claim, second, held{Resources: b, Generation: at(5)}, ledger.Present, nothing},
		{"second host, followed by a port", ledger.Claim, second, held{Resources: sum(b, port), Generation: at(6)}, ledger.Others, sum(b, port)},
		{"second host, neither", ledger.Claim, second, held{Resources: port, Generation: at(6)}, ledger.Absent, port},
		{"second host, nothing", ledger.Claim, second, held{}, ledger.Awaited, nothing},
		{"second claim of more, followed by a port", ledger.Claim, amount(nil, on("a", 1), a, at(4)), held{Resources: sum(a, port), Generation: at(6)}, ledger.Others, sum(a, port)},
		{"second claim of the same, followed by a port", ledger.Claim, amount(nil, a, a, at(4)), held{Resources: sum(a, port), Generation: at(6)}, ledger.Present, port},
		{"second claim, beside a part of the same provider", ledger.Claim, amount(on("a", 2), on("a", 1), b, at(4)), held{Resources: sum(on("a", 2), port), Generation: at(6)}, ledger.Absent, sum(on("a", 2), port)},
		{"gone beside a part of the same provider", ledger.Claim, amount(on("a", 2), on("a", 1), nil, at(4)), held{Resources: sum(on("a", 2), port), Generation: at(6)}, ledger.Others, sum(on("a", 2), port)},

		{"part", ledger.Part, known, held{Resources: sum(a, before), Generation: at(1)}, ledger.Present, before},
		{"part, in part", ledger.Part, known, held{Resources: sum(on("a", 1), before), Generation: at(1)}, ledger.Present, before},
		{"part, all", ledger.Part, known, held{Resources: a, Generation: at(1)}, ledger.Present, nothing},
		{"part, gone", ledger.Part, known, held{Resources: before, Generation: at(1)}, ledger.Absent, before},
		{"part, nothing", ledger.Part, known, held{}, ledger.Absent, nil},
		{"part, what is to be held", ledger.Part, amount(on("a", 2), on("a", 1), nil, nil), held{Resources: on("a", 2), Generation: at(9)}, ledger.Absent, on("a", 2)},

		{"consumer", ledger.Consumer, certain, held{Resources: a, Generation: at(3)}, ledger.Present, nil},
		{"consumer, written since", ledger.Consumer, certain, held{Resources: a, Generation: at(4)}, ledger.Others, a},
		{"consumer, of other resources", ledger.Consumer, certain, held{Resources: sum(a, port), Generation: at(3)}, ledger.Others, sum(a, port)},
		{"consumer, created again", ledger.Consumer, certain, held{Resources: a, Generation: at(1)}, ledger.Others, a},
		{"consumer, less", ledger.Consumer, certain, held{Resources: on("a", 1), Generation: at(3)}, ledger.Others, on("a", 1)},
		{"consumer, nothing", ledger.Consumer, certain, held{}, ledger.Absent, nil},
		{"consumer, not read", ledger.Consumer, amount(nil, nil, nil, nil), held{Resources: a, Generation: at(7)}, ledger.Present, nil},
		{"consumer, of no known generation", ledger.Consumer, known, held{Resources: sum(a, port), Generation: at(7)}, ledger.Present, nil},
	} {
		e := &ledger.Effect{Kind: c.kind, Amount: c.amount}
		shown, rest := e.In(c.held)
		check(t, string(c.kind)+", "+c.name, shown, c.shown)
		check(t, string(c.kind)+", "+c.name+": rest", rest, c.rest)
	}
}

func TestAmount(t *testing.T) {
	t.Parallel()
	m := &ledger.Amount{Before: on("node", 1), Added: on("a", 1)}
	check(t, "wanted", m.Wanted(), placement.Add(on("node", 1), on("a", 1)))
	m.Sent = on("b", 1)
	check(t, "wanted of what was sent", m.Wanted(), placement.Add(on("node", 1), on("b", 1)))
}

// The answers to claims, and to claims after them, say what the instance holds.
func TestAnswersToClaims(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		first, second error
		state         ledger.State
		want          ledger.Amount
		late          *int
	}{
		{"accepted twice", nil, nil, ledger.Done, ledger.Amount{Added: on("b", 1), Generation: at(6)}, nil},
		{"the second is refused", nil, refused(), ledger.Done, ledger.Amount{Added: on("a", 1), Generation: at(5)}, nil},
		{"the second is lost", nil, lost(), ledger.Unknown, ledger.Amount{Added: on("a", 1), Sent: on("b", 1), Generation: at(5)}, at(5)},
		{"the first is refused", refused(), nil, ledger.Done, ledger.Amount{Added: on("b", 1), Generation: at(6)}, nil},
		{"both are refused", refused(), refused(), ledger.Refused, ledger.Amount{Generation: at(5)}, nil},
		{"the first is lost", lost(), nil, ledger.Done, ledger.Amount{Added: on("b", 1), Generation: at(6)}, at(2)},
		{"both are lost", lost(), lost(), ledger.Unknown, ledger.Amount{Sent: on("b", 1), Generation: at(5)}, at(5)},
	} {
		b := ledger.NewBook(nil, nil)
		j := open(t, b, "i")
		e := newClaim()
		err := j.Claim(t.Context(), e, on("a", 1), at(2), answers(c.first))
		check(t, c.name+": first error", err, c.first)
		err = j.Claim(t.Context(), e, on("b", 1), at(5), answers(c.second))
		check(t, c.name+": second error", err, c.second)
		check(t, c.name+": error of the effect", e.Err, c.second)
		c.want.Project, c.want.User = "p", "u"
		check(t, c.name+": state", e.State, c.state)
		check(t, c.name, *e.Amount, c.want, ignoreLate)
		check(t, c.name+": late", b.LateChange("i"), c.late)
	}
}

func TestSeen(t *testing.T) {
	t.Parallel()
	j := open(t, ledger.NewBook(nil, nil), "i")
	first, second := newClaim(), newClaim()
	_ = j.Claim(t.Context(), first, on("a", 1), nil, answers(lost()))
	j.Seen(first, placement.Allocation{Resources: on("a", 1)})
	check(t, "the claim that was sent", []placement.Resources{first.Amount.Added, first.Amount.Sent}, []placement.Resources{on("a", 1), nil})
	_ = j.Claim(t.Context(), second, on("a", 1), nil, answers(nil))
	_ = j.Claim(t.Context(), second, on("b", 1), at(1), answers(lost()))
	j.Seen(second, placement.Allocation{Resources: on("a", 1)})
	check(t, "the claim before", []placement.Resources{second.Amount.Added, second.Amount.Sent}, []placement.Resources{on("a", 1), nil})
	j.Seen(second, placement.Allocation{})
	check(t, "a certain claim", second.Amount.Added, on("a", 1))
}
