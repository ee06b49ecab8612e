package discover

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

func TestWatchPrintsWhatChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const card = "bus/pci/devices/0000:3b:00.0"
		tree, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{
			{Address: "0000:3b:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "nvidia", Files: map[string]string{"current_link_width": "16\n", "max_link_width": "16\n"}},
		}})
		must(t, err)
		drivers, err := builtin.New(builtin.Config{Host: "cn0", EnabledDrivers: []string{builtin.NVIDIA}}, tree)
		must(t, err)
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- (&Command{Watch: 10 * time.Second}).watch(ctx, &out, tree, drivers) }()
		synctest.Wait()
		read := func() (lines []string) {
			time.Sleep(10 * time.Second) // virtual
			synctest.Wait()
			for line := range strings.Lines(out.String()) {
				_, text, _ := strings.Cut(strings.TrimSpace(line), " ")
				lines = append(lines, text)
			}
			out.Reset()
			return lines
		}
		target, err := tree.Readlink(card)
		must(t, err)
		for _, step := range []struct {
			name   string
			change func()
			want   []string
		}{
			{"nothing", func() {}, nil},
			{"lanes lost", func() { tree.SetFile(card+"/current_link_width", []byte("4\n")) },
				[]string{"0000:3b:00.0: offered as PGPU:1 on driver nvidia, but its link has 4 of 16 lanes"}},
			{"another kernel driver", func() { tree.SetLink(card+"/driver", "../../../bus/pci/drivers/vfio-pci") },
				[]string{"0000:3b:00.0: offered as PGPU:1 on driver vfio-pci, but its link has 4 of 16 lanes"}},
			{"gone", func() { tree.Remove(card) },
				[]string{"0000:3b:00.0: removed, was offered as PGPU:1 on driver vfio-pci, but its link has 4 of 16 lanes"}},
			{"back", func() { tree.SetLink(card, target) },
				[]string{"0000:3b:00.0: offered as PGPU:1 on driver vfio-pci, but its link has 4 of 16 lanes"}},
		} {
			step.change()
			if diff := cmp.Diff(step.want, read()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
