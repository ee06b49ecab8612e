package drill

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// carelessVariable lets TestDrillOfACarelessFlow, which fails, run.
const carelessVariable = "DRILL_CARELESS"

// powerOn is an operation of a hypervisor, which is not the cloud's.
const powerOn = "hypervisor.start"

// carelessStart forgets what it has when the hypervisor fails.
func carelessStart(ctx context.Context, cloud *simcloud.Cloud) error {
	if err := claimOnce(ctx, cloud, http.MethodPut); err != nil {
		return careful(ctx, cloud)
	}
	if _, fails := cloud.Faults().Decide(powerOn, drillGuest); fails {
		return errPanic
	}
	return define(cloud)
}

// TestDrillOfACarelessFlow fails when TestAFailingCasePrintsTheCommandThatRepeatsIt runs it, and shows nothing without that.
func TestDrillOfACarelessFlow(t *testing.T) {
	if os.Getenv(carelessVariable) == "" {
		return
	}
	for _, name := range []string{"it's careless", "other"} {
		t.Run(name, func(t *testing.T) {
			if name == "other" {
				return
			}
			Run(t, carelessStart, Config{Model: bare(), Setup: func(_ context.Context, cloud *simcloud.Cloud) error {
				cloud.Faults().RegisterWork(fault.Operation{Name: powerOn, Subject: "the instance", Actions: []fault.Action{fault.Status}})
				return nil
			}})
		})
	}
}

func TestAFailingCasePrintsTheCommandThatRepeatsIt(t *testing.T) {
	t.Parallel()
	if os.Getenv(carelessVariable) != "" {
		return
	}
	run := func(pattern, faults string) string {
		command := exec.Command(os.Args[0], "-test.run", pattern)
		command.Env = append(os.Environ(), carelessVariable+"=1")
		if faults != "" {
			command.Env = append(command.Env, FaultsVariable+"="+faults)
		}
		out, err := command.CombinedOutput()
		if err == nil {
			t.Fatalf("it does not fail:\n%s", out)
		}
		return string(out)
	}
	first := run("^TestDrillOfACarelessFlow$", "")
	if strings.Contains(first, "faults tried") {
		t.Errorf("progress in the log of a failure:\n%s", first)
	}
	line, found := "", false
	for each := range strings.Lines(first) {
		if at := strings.Index(each, FaultsVariable); at >= 0 && strings.Contains(each, powerOn) && !found {
			line, found = strings.Replace(each[at:], "-tags "+buildTags()+" ", "", 1), true // which the stages of CI set
		}
	}
	const tail = `go test -count=1 -run '^TestDrillOfACarelessFlow$/^it'\''s_careless$' github.com/gocyborg/gocyborg/simcloud/drill # repeat_test.go:`
	if !strings.Contains(line, tail) || !strings.Contains(line, ", seed 1, model seed 0, commit ") {
		t.Fatalf("got the line\n%swant one with\n%s", line, tail)
	}
	_, rest, _ := strings.Cut(line, "'")
	faults, _, _ := strings.Cut(rest, "' ")
	var rules []fault.Rule
	if err := json.Unmarshal([]byte(faults), &rules); err != nil || len(rules) != 1 || rules[0].Operation != powerOn {
		t.Fatalf("faults %s: %v", faults, err)
	}
	second := run("^TestDrillOfACarelessFlow$/^it's_careless$", faults)
	if n := strings.Count(second, "--- FAIL"); n != 2 || !strings.Contains(second, "has allocated VCPU:1 on cn0") {
		t.Errorf("repeated:\n%s", second)
	}
}

// A flow that returns in the end, but long after the last fault, is stuck.
func TestADrillLimitsTheTimeOfAFlow(t *testing.T) {
	t.Parallel()
	sulks := func(ctx context.Context, cloud *simcloud.Cloud) error {
		err := careful(ctx, cloud)
		if err != nil {
			<-ctx.Done()
		}
		return err
	}
	rule := fault.Rule{Operation: fault.AllocationsPut, Action: fault.Delay, Delay: 20 * time.Minute}
	refused := fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status}
	for _, tt := range []struct {
		name  string
		flow  Flow
		rule  fault.Rule
		stuck bool
	}{
		{"at once", careful, refused, false},
		{"after the delay of the fault", careful, rule, false},
		{"when its context ends", sulks, refused, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDrill(tt.flow, Config{Within: time.Minute})
			d.want, d.filled = &usage{guests: 1}, map[string]int{}
			o := d.runOn(t.Context(), simcloud.Run(t, bare()), []fault.Rule{tt.rule})
			if o.stuck != tt.stuck || (o.problem != "") != tt.stuck {
				t.Errorf("%s: stuck %t, want %t: %s", tt.name, o.stuck, tt.stuck, o.problem)
			}
		})
	}
}

// Every free device can be attached to a guest, also when some devices are in use, and everything
// is released afterwards.
func TestADrillFillsEveryHost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		damage func(t *testing.T, cloud *simcloud.Cloud)
		want   string // part of a problem; empty: none
	}{
		"whole": {func(*testing.T, *simcloud.Cloud) {}, ""},
		"a silent agent": {func(t *testing.T, cloud *simcloud.Cloud) {
			if err := cloud.Cyborg.StopAgent("cn0"); err != nil {
				t.Fatal(err)
			}
		}, "0 devices of cn0_0000:af:00.0 can be in use, want 16: cn0_0000:af:00.0 of host cn0 cannot be filled"},
		"reserved in Placement": {func(t *testing.T, cloud *simcloud.Cloud) {
			for _, d := range cloud.Cyborg.Deployables() {
				provider, err := cloud.Placement.ResourceProvider(d.ProviderUUID)
				if err != nil {
					t.Fatal(err)
				}
				for class, inventory := range provider.Inventories {
					inventory.Reserved = inventory.Total
					provider.Inventories[class] = inventory
				}
				if d.Name == "cn1_FakeDevice" {
					if err := cloud.Placement.SetInventory(d.ProviderUUID, provider.Inventories); err != nil {
						t.Fatal(err)
					}
				}
			}
		}, "0 devices of cn1_FakeDevice can be in use, want 16"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, async := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					model := simcloud.DefaultModel()
					model.StrictInstances = true
					if async {
						model.Cyborg = fakecyborg.Config{AsyncBind: true, BindDelay: 5 * time.Second}
					}
					cloud := simcloud.Run(t, model)
					d := newDrill(careful, Config{Within: time.Minute})
					before := new(outcome)
					if problems := d.checkEnd(t.Context(), cloud, before); len(problems) > 0 {
						t.Fatal(problems)
					}
					d.filled = before.filled
					cloud.CheckNoLeaks(t)
					tt.damage(t, cloud)
					problems := strings.Join(d.checkEnd(t.Context(), cloud, new(outcome)), "\n")
					if (problems == "") != (tt.want == "") || !strings.Contains(problems, tt.want) {
						t.Errorf("problems %q, want one with %q", problems, tt.want)
					}
				})
			}
		})
	}
	want := map[string]int{"cn0_FakeDevice": 16, "cn0_0000:3b:00.0": 1, "cn0_0000:5e:00.0": 1, "cn0_0000:af:00.0": 16, "cn0_0000:86:00.0": 2, "cn0_0000:d8:00.0": 1}
	synctest.Test(t, func(t *testing.T) {
		model := simcloud.DefaultModel()
		model.Hosts = model.Hosts[:1]
		cloud := simcloud.Run(t, model)
		o := new(outcome)
		newDrill(careful, Config{Within: time.Minute}).checkEnd(t.Context(), cloud, o)
		if diff := cmp.Diff(want, o.filled); diff != "" {
			t.Errorf("devices in use (-want +got):\n%s", diff)
		}
	})
}

// Where nova-compute creates the mediated devices, a request is Bound even if its parent has no
// free instance: both checks find a leaked device that occupies it.
func TestADrillFindsALeakedMediatedDevice(t *testing.T) {
	t.Parallel()
	for _, creation := range []fakecyborg.MdevCreation{fakecyborg.MdevsByAgent, fakecyborg.MdevsByNova} {
		synctest.Test(t, func(t *testing.T) {
			model := simcloud.DefaultModel()
			model.Cyborg.MdevCreation = creation
			cloud := simcloud.Run(t, model)
			d := newDrill(careful, Config{Within: time.Minute})
			before := new(outcome)
			if problems := d.checkEnd(t.Context(), cloud, before); len(problems) > 0 {
				t.Fatal(problems)
			}
			d.filled = before.filled
			if mdevs, err := cloud.Mdevs("cn0"); len(mdevs) > 0 || err != nil {
				t.Errorf("%s: %v, %v after the check", creation, mdevs, err)
			}
			left := driver.Mdev{UUID: drillGuest, Parent: "0000:af:00.0", Type: "nvidia-222"}
			if err := cloud.CreateMdev(t.Context(), "cn0", left); err != nil {
				t.Fatal(err)
			}
			problems := d.checkEnd(t.Context(), cloud, new(outcome))
			if len(problems) != 1 || !strings.Contains(problems[0], "15 devices of cn0_0000:af:00.0 can be in use, want 16") {
				t.Errorf("%s: problems %q", creation, problems)
			}
		})
	}
}
