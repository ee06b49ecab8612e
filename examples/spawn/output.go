package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
)

// output prints the flow, or one JSON document.
type output struct {
	opts   options
	text   io.Writer // tables; discarded with --json and --xml -
	stdout io.Writer
	stderr io.Writer
	calls  []call
	hint   string
}

func newOutput(opts options, stdout, stderr io.Writer) *output {
	o := &output{opts: opts, text: stdout, stdout: stdout, stderr: stderr}
	if opts.JSON || opts.XML == "-" {
		o.text = io.Discard
	}
	return o
}

func (o *output) begin(title string, request spawn.Request) {
	name, _ := request.Flavor.DeviceProfile()
	fmt.Fprintf(o.text, "Instance %s, flavor %s, device profile %s\n%s\n\n", request.Instance, request.Flavor.Name, name, title)
}

// finish writes the requested output.
func (o *output) finish(result *spawn.Result, err error) error {
	trace := traceOf(result, err)
	if o.opts.JSON {
		if err := o.json(result, err); err != nil {
			return err
		}
	}
	if len(trace) > 0 {
		o.timeline(trace)
	}
	if o.opts.Diagram != "" && len(trace) > 0 {
		if err := os.WriteFile(o.opts.Diagram, []byte(diagram(trace, o.calls)), 0o644); err != nil {
			return badInput("--diagram", err)
		}
	}
	if err != nil {
		o.failure(err)
		return nil
	}
	o.arqs(result)
	return o.xml(result.Domain)
}

func (o *output) newTable(header ...any) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleDefault)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.AppendHeader(header)
	t.SetColumnConfigs([]table.ColumnConfig{{Name: outcome, WidthMax: maxOutcome, WidthMaxEnforcer: text.WrapSoft}})
	t.SuppressTrailingSpaces()
	return t
}

// The last column of the timeline has sentences, which are wrapped.
const (
	outcome    = "outcome"
	maxOutcome = 72
)

// timeline prints a row per step and below it a row per call.
func (o *output) timeline(trace []spawn.StepTrace) {
	t := o.newTable("", "step", "time", "request", outcome)
	for _, step := range trace {
		t.AppendRow(table.Row{number(step.Step), step.Step.String(), milliseconds(step.Duration), "", stepOutcome(step)})
		for _, c := range during(o.calls, step) {
			t.AppendRow(table.Row{"", "", milliseconds(c.Duration), c.From + " -> " + c.To + "  " + c.What, statusText(c.Status)})
		}
	}
	fmt.Fprintln(o.text, t.Render())
	fmt.Fprintln(o.text)
}

// number returns the number of the step; the unwinding has none.
func number(step spawn.Step) string {
	if step == spawn.StepUnwind {
		return ""
	}
	return strconv.Itoa(int(step))
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// arqs prints a row per accelerator request.
func (o *output) arqs(result *spawn.Result) {
	t := o.newTable("ARQ", "group", "state", "host", "provider", "handle", "in the domain")
	for _, arq := range result.ARQs {
		t.AppendRow(table.Row{
			arq.UUID, arq.DeviceProfileGroupID, arq.State, arq.Hostname, arq.DeviceRPUUID, handleText(arq), deviceText(result, arq.UUID),
		})
	}
	fmt.Fprintln(o.text, t.Render())
	fmt.Fprintln(o.text)
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
	if i := slices.IndexFunc(result.Devices, func(d domainxml.Device) bool { return d.ARQ == arq }); i >= 0 {
		return result.Devices[i].String()
	}
	return "skipped: the handle has no hardware"
}

// xml prints the domain or writes it to the file of --xml.
func (o *output) xml(domain []byte) error {
	switch o.opts.XML {
	case "":
		_, err := o.text.Write(domain)
		return err
	case "-":
		if o.opts.JSON {
			return nil // it is in the document
		}
		_, err := o.stdout.Write(domain)
		return err
	}
	if err := os.WriteFile(o.opts.XML, domain, 0o644); err != nil {
		return badInput("--xml", err)
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
		fmt.Fprintln(o.stderr, "left behind:", thing)
	}
	if len(failure.Undone)+len(failure.Leftovers) == 0 {
		fmt.Fprintln(o.stderr, "nothing to undo")
	}
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// failed reports that the output could not be written.
func (o *output) failed(err error) int {
	fmt.Fprintln(o.stderr, "spawn:", err)
	return statusBadInput
}

// document is what --json prints.
type document struct {
	Instance  string             `json:"instance,omitempty"`
	Host      string             `json:"host,omitempty"`
	ARQs      []cyborgclient.ARQ `json:"arqs"`
	Devices   []device           `json:"devices"`
	Skipped   []device           `json:"skipped"`
	Domain    string             `json:"domain,omitempty"`
	Error     string             `json:"error,omitempty"`
	Step      string             `json:"step,omitempty"`
	Undone    []string           `json:"undone,omitempty"`
	Leftovers []string           `json:"leftovers,omitempty"`
	Trace     steps              `json:"trace"`
	Calls     []call             `json:"calls"`
}

type steps struct {
	Steps []spawn.StepTrace `json:"steps"`
}

type device struct {
	ARQ  string `json:"arq"`
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

func (o *output) json(result *spawn.Result, err error) error {
	doc := document{ARQs: []cyborgclient.ARQ{}, Devices: []device{}, Skipped: []device{}, Calls: o.calls, Trace: steps{traceOf(result, err)}}
	if result != nil {
		doc.Instance, doc.Host, doc.ARQs, doc.Domain = result.Instance, result.Host, result.ARQs, string(result.Domain)
		for _, d := range result.Devices {
			doc.Devices = append(doc.Devices, device{ARQ: d.ARQ, Type: kind(d), Name: d.String()})
		}
		for _, s := range result.Skipped {
			doc.Skipped = append(doc.Skipped, device{ARQ: s.ARQ, Type: s.Type})
		}
	}
	doc.fail(err)
	enc := json.NewEncoder(o.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

func (d *document) fail(err error) {
	if err == nil {
		return
	}
	d.Error = oneLine(err)
	var failure *spawn.Error
	if !errors.As(err, &failure) {
		return
	}
	d.Instance, d.Step, d.Undone = failure.Instance, failure.Step.String(), failure.Undone
	for _, left := range failure.Leftovers {
		d.Leftovers = append(d.Leftovers, left.String())
	}
}

func kind(d domainxml.Device) string {
	if d.PCI != nil {
		return domainxml.HandlePCI
	}
	return domainxml.HandleMDEV
}
