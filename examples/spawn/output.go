package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/sim"
)

// output prints the flow, or one JSON document.
type output struct {
	opts     options
	text     io.Writer // tables; discarded with -o json and --xml -
	domain   io.Writer // discarded with -o json
	stdout   io.Writer
	stderr   io.Writer
	requests []sim.Exchange // of an embedded cloud
	rebooted []string       // what happened when the host was rebooted
	released string         // the instance whose accelerators were released
	hint     string
}

func newOutput(opts options, stdout, stderr io.Writer) *output {
	o := &output{opts: opts, text: stdout, domain: stdout, stdout: stdout, stderr: stderr}
	if opts.isJSON() {
		o.domain = io.Discard
	}
	if opts.isJSON() || opts.XML == "-" {
		o.text = io.Discard
	}
	return o
}

func (o *output) begin(title string, request spawn.Request) {
	name, _ := request.Flavor.DeviceProfile()
	if name == "" {
		name = "none"
	}
	fmt.Fprintf(o.text, "Instance %s, flavor %s, device profile %s\n%s\n\n", request.Instance, request.Flavor.Name, name, title)
}

// finish prints the result or the error, and returns the error, or the error of writing the output.
func (o *output) finish(result *spawn.Result, err error) error {
	if trace := traceOf(result, err); len(trace) > 0 {
		o.timeline(trace)
	}
	switch {
	case err == nil && result != nil:
		o.arqs(result)
		for _, line := range o.rebooted {
			fmt.Fprintf(o.text, "%s\n", line)
		}
		err = o.xml(result.Domain)
		o.next(result)
	case err == nil:
		fmt.Fprintf(o.text, "The accelerators of instance %s are released\n", o.released)
	}
	if o.opts.isJSON() {
		err = errors.Join(err, o.json(result, err))
	}
	if err != nil {
		o.failure(err)
	}
	return err
}

// next says how an instance of a cloud of clouds.yaml is deleted.
func (o *output) next(result *spawn.Result) {
	if o.opts.Cloud == "" || o.opts.Instance != uuid.Nil {
		return
	}
	service := ""
	if o.opts.ServiceCloud != "" {
		service = " --service-cloud " + o.opts.ServiceCloud
	}
	fmt.Fprintf(o.text, "\nThe instance keeps its accelerators until: go run ./examples/spawn --cloud %s%s --delete %s\n", o.opts.Cloud, service, result.Instance)
}

// traceOf returns the record of the flow, nil if it did not run.
func traceOf(result *spawn.Result, err error) []spawn.StepTrace {
	var failure *spawn.Error
	switch {
	case result != nil:
		return result.Trace
	case errors.As(err, &failure):
		return failure.Trace
	}
	return nil
}

func newTable(header ...any) table.Writer {
	t := table.NewWriter()
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.AppendHeader(header)
	t.SuppressTrailingSpaces()
	return t
}

// timeline prints a row per step and below it a row per request. Long outcomes are wrapped.
func (o *output) timeline(trace []spawn.StepTrace) {
	t := newTable("", "step", "time", "request", "outcome")
	t.SetColumnConfigs([]table.ColumnConfig{{Name: "outcome", WidthMax: 72, WidthMaxEnforcer: text.WrapSoft}})
	for _, step := range trace {
		outcome := step.Decision
		if step.Error != "" {
			outcome = "failed"
		}
		t.AppendRow(table.Row{number(step.Step), step.Step.String(), milliseconds(step.Duration), "", outcome})
		for _, r := range o.during(step) {
			t.AppendRow(table.Row{"", "", milliseconds(r.Duration), requestText(r), statusText(r.Status)})
		}
	}
	fmt.Fprintf(o.text, "%s\n\n", t.Render())
}

// during returns the requests of a step: those that an embedded cloud answered in its time,
// or those that the flow sent to a real one.
func (o *output) during(step spawn.StepTrace) []sim.Exchange {
	var list []sim.Exchange
	if o.requests == nil {
		for _, r := range step.Requests {
			list = append(list, sim.Exchange{Service: r.Service, Path: r.Name, Status: r.Status, Duration: r.Duration})
		}
		return list
	}
	end := step.Started.Add(step.Duration)
	for _, r := range o.requests {
		if !r.Started.Before(step.Started) && !r.Started.After(end) {
			list = append(list, r)
		}
	}
	return list
}

// services has the names of services by their types, mounts the paths of the embedded ones.
var (
	services = map[string]string{
		"accelerator": "Cyborg", "placement": "Placement", "identity": "Keystone", "compute": "Nova", "image": "Glance",
	}
	mounts = strings.NewReplacer("/placement/", "/", "/accelerator/v2/", "/", "/compute/v2.1/", "/")
	uuids  = regexp.MustCompile(`([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
)

// requestText names sender, receiver, method and path, with short UUIDs.
func requestText(r sim.Exchange) string {
	from, to := "spawn", services[r.Service]
	switch {
	case r.Service == "": // an event
		from, to = "Nova", "spawn"
	case r.Internal:
		from = "Cyborg"
	}
	what := strings.TrimSpace(r.Method + " " + mounts.Replace(r.Path))
	return from + " -> " + to + "  " + uuids.ReplaceAllString(what, "$1..")
}

func statusText(status int) string {
	if status == 0 {
		return "no answer"
	}
	return strconv.Itoa(status)
}

// number returns the number of a step of the flow; the unwinding and hooks have none.
func number(step spawn.Step) string {
	if step > spawn.StepCompose {
		return ""
	}
	return strconv.Itoa(int(step))
}

// milliseconds is empty for an event, whose duration is unknown.
func milliseconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// arqs prints a row per accelerator request.
func (o *output) arqs(result *spawn.Result) {
	t := newTable("ARQ", "group", "state", "host", "provider", "handle", "in the domain")
	for _, arq := range result.ARQs {
		t.AppendRow(table.Row{
			arq.UUID, arq.DeviceProfileGroupID, arq.State, arq.Hostname, arq.DeviceRPUUID, handleText(arq), deviceText(result, arq.UUID),
		})
	}
	fmt.Fprintf(o.text, "%s\n\n", t.Render())
}

func handleText(arq cyborgclient.ARQ) string {
	info := arq.AttachHandleInfo
	text := fmt.Sprintf("%s %v:%v:%v.%v", arq.AttachHandleType, info["domain"], info["bus"], info["device"], info["function"])
	if asked, ok := info["asked_type"]; ok {
		text += fmt.Sprintf(" %v", asked)
	}
	return text
}

func deviceText(result *spawn.Result, arq string) string {
	if i := slices.IndexFunc(result.Devices, func(d domainxml.Hostdev) bool { return d.ARQ == arq }); i >= 0 {
		return result.Devices[i].String()
	}
	return "skipped: the handle has no hardware"
}

// xml prints the domain or writes it to the file of --xml.
func (o *output) xml(domain []byte) error {
	if o.opts.XML == "" || o.opts.XML == "-" {
		_, err := o.domain.Write(domain)
		return err
	}
	if err := os.WriteFile(o.opts.XML, domain, 0o644); err != nil {
		return fmt.Errorf("--xml: %w", err)
	}
	fmt.Fprintf(o.text, "Domain XML written to %s\n", o.opts.XML)
	return nil
}

// failure prints the cause in one line, then what was undone.
func (o *output) failure(err error) {
	fmt.Fprintln(o.stderr, "spawn:", strings.TrimPrefix(oneLine(err), "spawn: "))
	if errors.Is(err, cyborgclient.ErrServiceToken) {
		fmt.Fprintln(o.stderr, "hint: use --service-cloud with a cloud of clouds.yaml whose user has the role service")
	}
	if o.hint != "" {
		fmt.Fprintln(o.stderr, "hint:", o.hint)
	}
	var failure *spawn.Error
	if !errors.As(err, &failure) {
		return
	}
	for _, thing := range failure.Undone {
		fmt.Fprintln(o.stderr, "undone:", thing)
	}
	for _, thing := range failure.Leftovers {
		fmt.Fprintln(o.stderr, "not cleaned up:", thing)
	}
	if len(failure.Undone)+len(failure.Leftovers) == 0 {
		fmt.Fprintln(o.stderr, "nothing to undo")
	}
	if o.requests != nil && !errors.Is(err, errLeak) {
		fmt.Fprintln(o.stderr, "checked: nothing leaked")
	}
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// document is what -o json prints.
type document struct {
	Instance  string             `json:"instance,omitempty"`
	Host      string             `json:"host,omitempty"`
	ARQs      []cyborgclient.ARQ `json:"arqs"`
	Devices   map[string]string  `json:"devices,omitempty"` // what is in the domain, by ARQ
	Domain    string             `json:"domain,omitempty"`
	Error     string             `json:"error,omitempty"`
	Step      spawn.Step         `json:"step,omitempty"`
	Undone    []string           `json:"undone,omitempty"`
	Leftovers []spawn.Leftover   `json:"leftovers,omitempty"`
	Reboot    []string           `json:"reboot,omitempty"` // what happened, with --reboot
	Trace     []spawn.StepTrace  `json:"trace"`
	Requests  []sim.Exchange     `json:"requests,omitempty"`
}

func (o *output) json(result *spawn.Result, err error) error {
	doc := document{ARQs: []cyborgclient.ARQ{}, Devices: make(map[string]string), Trace: traceOf(result, err), Requests: o.requests, Reboot: o.rebooted}
	if result != nil {
		doc.Instance, doc.Host, doc.ARQs, doc.Domain = result.Instance, result.Host, result.ARQs, string(result.Domain)
		for _, arq := range result.ARQs {
			doc.Devices[arq.UUID] = deviceText(result, arq.UUID)
		}
	}
	if err != nil {
		doc.Error = oneLine(err)
	}
	var failure *spawn.Error
	if errors.As(err, &failure) {
		doc.Instance, doc.Step, doc.Undone, doc.Leftovers = failure.Instance, failure.Step, failure.Undone, failure.Leftovers
	}
	enc := json.NewEncoder(o.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}
