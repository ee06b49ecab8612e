//go:build libvirt

package domainxml_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"libvirt.org/go/libvirtxml"

	"github.com/gocyborg/gocyborg/domainxml"
)

// The third validator is libvirt's QEMU driver itself, embedded in virsh: it needs no
// daemon, no KVM and none of the devices, whose existence is checked only when a
// guest starts (Debian: libvirt-daemon, libvirt-daemon-driver-qemu,
// qemu-system-x86). As root it looks up a user libvirt-qemu, which the package of
// the system daemon would make; libnss-wrapper shows it one of a file instead.

// qemu is the embedded driver over a directory of its own.
type qemu struct{ root, passwd, group string }

func newQEMU(t *testing.T) qemu {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "q") // short: the path of a socket has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	q := qemu{filepath.Join(dir, "embed"), filepath.Join(dir, "passwd"), filepath.Join(dir, "group")}
	if err := os.MkdirAll(filepath.Join(q.root, "etc"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := "dynamic_ownership=0\nremember_owner=0\nsecurity_driver=\"none\"\n"
	if os.Geteuid() == 0 {
		config += "user=\"root\"\ngroup=\"root\"\n"
	}
	for path, text := range map[string]string{
		filepath.Join(q.root, "etc", "qemu.conf"): config,
		q.passwd: "root:x:0:0::/root:/bin/sh\nlibvirt-qemu:x:64055:64055::/nonexistent:/bin/false\n",
		q.group:  "root:x:0:\nkvm:x:64056:\nlibvirt-qemu:x:64055:\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return q
}

// virsh runs commands of one line and gives what they print.
func (q qemu) virsh(t *testing.T, line string) (string, error) {
	t.Helper()
	env := []string{"LD_PRELOAD=libnss_wrapper.so", "NSS_WRAPPER_PASSWD=" + q.passwd, "NSS_WRAPPER_GROUP=" + q.group}
	out, refused, err := output(t, env, "virsh", "-q", "-c", "qemu:///embed?root="+q.root, line)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, refused)
	}
	return out, nil
}

// output runs a tool. The embedded driver, which starts QEMU to see what it can do, hung once in
// some hundred runs: what does not end within a minute is ended and run once more.
func output(t *testing.T, env []string, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env = append(append(os.Environ(), "HOME="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir()), env...)
		cmd.WaitDelay = 5 * time.Second // a surviving QEMU keeps the pipes open
		var out, refused strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &refused
		err = cmd.Run()
		stdout, stderr = out.String(), refused.String()
		if ctx.Err() == nil && !errors.Is(err, exec.ErrWaitDelay) {
			break
		}
		err = fmt.Errorf("%s %s: did not end: %w", name, strings.Join(args, " "), err)
		t.Log(err)
	}
	return stdout, stderr, err
}

func (q qemu) define(t *testing.T, domain []byte) error {
	t.Helper()
	_, err := q.virsh(t, "define "+saved(t, domain))
	return err
}

// domainOf is a domain of a name with the devices given as text. It asks for
// emulation: a machine of tests may have no KVM.
func domainOf(name, devices string) []byte {
	domain := string(domainxml.NewDomain(domainxml.DomainOpts{Name: name}))
	domain = strings.Replace(domain, `type="kvm"`, `type="qemu"`, 1)
	return []byte(strings.Replace(domain, "</devices>", devices+"</devices>", 1))
}

const (
	novaPCI = `<hostdev mode="subsystem" type="pci" managed="yes"><source>` +
		`<address domain="0x0000" bus="0x3b" slot="0x00" function="0x0"/></source></hostdev>`
	novaMDEV = `<hostdev mode="subsystem" type="mdev" managed="no" model="vfio-pci"><source>` +
		`<address uuid="51e314cb-59ee-4896-8b40-54953ee00227"/></source></hostdev>`
	novaVIF = `<interface type="hostdev" managed="yes"><mac address="52:54:00:1e:59:c3"/><source>` +
		`<address type="pci" domain="0x0000" bus="0x3b" slot="0x00" function="0x0"/></source><vlan><tag id="100"/></vlan></interface>`
	vnc = `<graphics type="vnc"/>`
)

// TestLibvirtRefusesBadDocuments is the table of what each validator finds: the schema misses
// duplicates, the parser misses unknown attributes, and only the QEMU driver knows
// what QEMU cannot do.
func TestLibvirtRefusesBadDocuments(t *testing.T) {
	const pass, fail = true, false
	edit := strings.NewReplacer
	tests := []struct {
		name                 string
		devices              string
		schema, parser, qemu bool
		says                 string // the QEMU driver's reason
		shows                string // what it makes of what it accepts
	}{
		{"as Nova writes them", novaPCI + novaMDEV, pass, pass, pass, "", "bus='0x3b'"},
		{"a port's interface", novaVIF, pass, pass, pass, "", "<tag id='100'/>"},
		{"alias", edit("</source>", `</source><alias name="ua-gpu"/>`).Replace(novaPCI), pass, pass, pass, "", "ua-gpu"},
		{
			"guest address",
			edit("</source>", `</source><address type="pci" domain="0x0000" bus="0x00" slot="0x05" function="0x0"/>`).Replace(novaPCI),
			pass, pass, pass,
			"",
			"slot='0x05'",
		},
		{"mdev managed", edit(`managed="no"`, `managed="yes"`).Replace(novaMDEV), pass, pass, pass, "", ""},
		{"mdev uuid in upper case", edit("51e314cb", "51E314CB").Replace(novaMDEV), pass, pass, pass, "", mdevUUID2},
		{"mdev uuid without dashes", edit(mdevUUID2, strings.ReplaceAll(mdevUUID2, "-", "")).Replace(novaMDEV), pass, pass, pass, "", mdevUUID2},
		{"invalid mdev uuid", edit("51e314cb-", "x").Replace(novaMDEV), fail, fail, fail, "Cannot parse uuid attribute of element <address>", ""},
		{"mdev without model", edit(` model="vfio-pci"`, "").Replace(novaMDEV), fail, fail, fail, "Missing required attribute 'model'", ""},
		{"model nvidia-35", edit("vfio-pci", "nvidia-35").Replace(novaMDEV), fail, fail, fail, "Invalid value for attribute 'model'", ""},
		{"model vfio-ap", edit("vfio-pci", "vfio-ap").Replace(novaMDEV), pass, pass, fail, "not supported by this version of QEMU", ""},
		{"model vfio-ccw", edit("vfio-pci", "vfio-ccw").Replace(novaMDEV), pass, pass, fail, "not supported by this version of QEMU", ""},
		{"display without graphics", edit("model=", `display="on" model=`).Replace(novaMDEV), pass, pass, fail, "graphics device is needed", ""},
		{"display with graphics", edit("model=", `display="on" model=`).Replace(novaMDEV) + vnc, pass, pass, pass, "", "display='on'"},
		{"display and ramfb", edit("model=", `display="on" ramfb="on" model=`).Replace(novaMDEV) + vnc, pass, pass, pass, "", "ramfb='on'"},
		{"display maybe", edit("model=", `display="maybe" model=`).Replace(novaMDEV), fail, fail, fail, "Invalid value for attribute 'display'", ""},
		{"type vgpu", edit(`type="mdev"`, `type="vgpu"`).Replace(novaMDEV), fail, fail, fail, "unknown host device source address type", ""},
		{"bus without 0x", edit("0x3b", "3b").Replace(novaPCI), fail, fail, fail, "Expected non-negative integer value", ""},
		{"bus without 0x that looks decimal", edit("0x3b", "10").Replace(novaPCI), pass, pass, pass, "", "bus='0x0a'"},
		{"device in place of slot", edit(`slot="0x00"`, `device="0x05"`).Replace(novaPCI), fail, pass, pass, "", "slot='0x00'"},
		{"bus too large", edit("0x3b", "0x13b").Replace(novaPCI), fail, fail, fail, "must be <= 0xFF", ""},
		{"slot too large", edit(`slot="0x00"`, `slot="0x20"`).Replace(novaPCI), fail, fail, fail, "must be <= 0x1F", ""},
		{"function too large", edit(`function="0x0"`, `function="0x8"`).Replace(novaPCI), fail, fail, fail, "must be <= 7", ""},
		{"domain of 17 bits", edit("0x0000", "0x10000").Replace(novaPCI), pass, pass, pass, "", "domain='0x10000'"},
		{"domain over 32 bits", edit("0x0000", "0x100000000").Replace(novaPCI), fail, fail, fail, "Invalid value for attribute 'domain'", ""},
		{"no source", `<hostdev mode="subsystem" type="pci" managed="yes"/>`, fail, fail, fail, "Missing <source> element", ""},
		{"PCI twice", novaPCI + novaPCI, pass, fail, fail, "Hostdev already exists in the domain configuration", ""},
		{"mdev twice", novaMDEV + novaMDEV, pass, fail, fail, "Hostdev already exists in the domain configuration", ""},
		{"host device and interface", novaVIF + novaPCI, pass, fail, fail, "Hostdev already exists in the domain configuration", ""},
		{"VLAN too high", edit(`"100"`, `"5000"`).Replace(novaVIF), fail, fail, fail, "too large", ""},
		{"MAC too short", edit("52:54:00:1e:59:c3", "52:54").Replace(novaVIF), fail, fail, fail, "unable to parse mac address", ""},
	}
	q := newQEMU(t)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := fmt.Sprint("checked-", i)
			domain := domainOf(name, tt.devices)
			_, schema := validate(t, domain)
			_, parser := define(t, domain)
			driver := q.define(t, domain)
			want := []bool{tt.schema, tt.parser, tt.qemu}
			if diff := cmp.Diff(want, []bool{schema == nil, parser == nil, driver == nil}); diff != "" {
				t.Errorf("schema, parser, QEMU driver (-want +got):\n%s\n%v\n%v\n%v", diff, schema, parser, driver)
			}
			if driver != nil {
				if !strings.Contains(driver.Error(), tt.says) {
					t.Errorf("the QEMU driver says %v, want %q", driver, tt.says)
				}
				return
			}
			defined, err := q.virsh(t, "dumpxml --inactive "+name)
			if err != nil || !strings.Contains(defined, tt.shows) {
				t.Errorf("the defined domain does not show %q: %v\n%s", tt.shows, err, defined)
			}
		})
	}
}

// TestMergeRefusesWhatLibvirtRefuses: what the QEMU driver would refuse about a device
// that comes from a handle, we refuse before.
func TestMergeRefusesWhatLibvirtRefuses(t *testing.T) {
	for name, h := range map[string]domainxml.Handle{
		"mdev uuid":      {ARQ: "a", Type: "MDEV", UUID: "x59ee"},
		"bus too large":  {ARQ: "a", Type: "PCI", Info: pciInfo("0", "13b", "0", "0")},
		"slot too large": {ARQ: "a", Type: "PCI", Info: pciInfo("0", "3b", "20", "0")},
		"function":       {ARQ: "a", Type: "PCI", Info: pciInfo("0", "3b", "0", "8")},
		"domain":         {ARQ: "a", Type: "PCI", Info: pciInfo("100000000", "3b", "0", "0")},
	} {
		if devices, _, err := domainxml.Hostdevs([]domainxml.Handle{h}); err == nil {
			t.Errorf("%s: accepted as %v", name, devices)
		}
	}
}

// refusedAsGiven are the inputs that no validator accepts, and why: they are here to
// show that bytes are kept.
func refusedAsGiven() map[string]string {
	return map[string]string{
		"after-last-hostdev":   "an element of a later libvirt",
		"bom":                  "no name",
		"cdata":                "a foreign element",
		"empty-domain":         "no name",
		"two-devices-elements": "no name",
	}
}

// definable gives a short document what the parser wants of a domain and the
// schema does not: memory and a type of guest.
func definable(domain []byte) []byte {
	text, missing := string(domain), ""
	if !strings.Contains(text, "<memory") {
		missing += "<memory>524288</memory>"
	}
	if !strings.Contains(text, "<os>") {
		missing += "<os><type>hvm</type></os>"
	}
	text = strings.ReplaceAll(text, "type='kvm'", `type="kvm"`)
	return []byte(strings.Replace(text, "</name>", "</name>"+missing, 1))
}

// TestLibvirtAcceptsEveryGoldenDocument asks the schema about each document under
// testdata, and the parser about each whole domain. What a merge makes of a domain
// that the schema takes, it takes too.
func TestLibvirtAcceptsEveryGoldenDocument(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	refused := refusedAsGiven()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".golden")
		t.Run(name, func(t *testing.T) {
			schema, domain := "domain", text
			switch {
			case strings.HasPrefix(name, "nodedev"): // the schema wants a name, which libvirt gives by itself
				schema, domain = "nodedev", []byte(strings.Replace(string(text), "<device>", "<device><name>mdev</name>", 1))
			case strings.HasPrefix(name, "attach-"), name == "port", name == "port-vlan":
				domain = domainOf("one", string(text))
			}
			out, err := tool(t, "virt-xml-validate", saved(t, domain), schema)
			why := refused[strings.TrimPrefix(name, "port-")]
			if (err == nil) != (why == "") {
				t.Errorf("virt-xml-validate: %v (expected to be refused for: %q)\n%s", err, why, out)
			}
			if schema != "domain" || why != "" {
				return
			}
			if out, err := define(t, definable(domain)); err != nil {
				t.Errorf("virsh define: %v\n%s", err, out)
			}
		})
	}
}

func TestTheQEMUDriverDefinesWhatWeMake(t *testing.T) {
	q := newQEMU(t)
	all := append(mustHostdevs(t, "PCI2", "MDEV"), onePort(t, 100))
	for name, devices := range map[string][]domainxml.Hostdev{"none": nil, "all": all, "display": {withDisplay(t, "on")}} {
		t.Run(name, func(t *testing.T) {
			base := domainOf(name, "")
			if name == "display" {
				base = domainOf(name, vnc)
			}
			domain := edited(t, domainxml.Merge, base, devices)
			if err := q.define(t, domain); err != nil {
				t.Fatalf("%v\n%s", err, domain)
			}
			defined, err := q.virsh(t, "dumpxml --inactive "+name)
			if err != nil {
				t.Fatal(err)
			}
			diff, err := domainxml.Diff([]byte(defined), devices)
			if err != nil || len(diff.Missing)+len(diff.Foreign) > 0 {
				t.Errorf("libvirt made something else of it: %+v, %v\n%s", diff, err, defined)
			}
		})
	}
}

// vfio are the devices of a QEMU command line that come from host devices.
var vfio = regexp.MustCompile(`\{"driver":"vfio-pci[^}]*\}`)

func TestTheCommandLineOfQEMUHasTheDevices(t *testing.T) {
	q := newQEMU(t)
	devices := mustHostdevs(t, "PCI", "MDEV")
	// libvirt chooses the driver of a PCI device when the guest starts; for the
	// command line alone it has to be named.
	devices[0].Hostdev.SubsysPCI.Driver = &libvirtxml.DomainHostdevSubsysPCIDriver{Name: "vfio"}
	domain := edited(t, domainxml.Merge, domainOf("native", ""), devices)
	out, err := q.virsh(t, "define "+saved(t, domain)+"; domxml-to-native qemu-argv --domain native")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, text := range vfio.FindAllString(out, -1) {
		var argument struct{ Host, SysfsDev string }
		if err := json.Unmarshal([]byte(text), &argument); err != nil {
			t.Fatal(err)
		}
		got = append(got, argument.Host+argument.SysfsDev)
	}
	want := []string{"0000:0c:00.1", "/sys/bus/mdev/devices/" + mdevUUID}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices on the command line (-want +got):\n%s\n%s", diff, out)
	}
}

func TestTheQEMUDriverAttachesAndDetachesOurDocuments(t *testing.T) {
	q := newQEMU(t)
	if err := q.define(t, domainOf("live", "")); err != nil {
		t.Fatal(err)
	}
	current := func() []byte {
		t.Helper()
		text, err := q.virsh(t, "dumpxml --inactive live")
		if err != nil {
			t.Fatal(err)
		}
		return []byte(text)
	}
	for _, d := range append(mustHostdevs(t, "PCI2", "MDEV"), onePort(t, 100)) {
		attach := attachXML(t, d)
		if _, err := q.virsh(t, "attach-device live --config "+saved(t, attach)); err != nil {
			t.Errorf("attach %s: %v\n%s", d, err, attach)
			continue
		}
		if there, err := has(current(), d); err != nil || !there {
			t.Errorf("attached %s is not there: %v", d, err)
		}
		detach, err := domainxml.DetachXML(current(), d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := q.virsh(t, "detach-device live --config "+saved(t, detach)); err != nil {
			t.Errorf("detach %s: %v\n%s", d, err, detach)
		}
		if there, err := has(current(), d); err != nil || there {
			t.Errorf("detached %s is still there: %v", d, err)
		}
	}
}
