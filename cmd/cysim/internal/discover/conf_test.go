package discover

import (
	"testing"

	"github.com/gocyborg/gocyborg/internal/osloconf"
)

func FuzzNovaConf(f *testing.F) {
	f.Add("[pci]\ndevice_spec = [{\"address\": {\"bus\": \".*\"}, \"physical_network\": null}]\n[devices]\nenabled_mdev_types = a,b\n")
	f.Add("[\n=\n[]]\n\"\"\"\n` = `\n")
	f.Fuzz(func(t *testing.T, text string) {
		conf, err := osloconf.Parse([]byte(text))
		if err != nil {
			return
		}
		n := &novaClaims{}
		_ = n.addSpecs(conf) // must not panic
		_ = n.addMdevs(conf)
	})
}
