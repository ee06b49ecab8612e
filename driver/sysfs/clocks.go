package sysfs

import "fmt"

// Clock describes a precision time protocol clock of a PCI function.
type Clock struct {
	// Name is that of the class device, ptp0.
	Name string `json:"name"`
	// ClockName is what the kernel driver calls it, the content of clock_name.
	ClockName string `json:"clock_name"`
}

const majorPTP = 248

func (m *hardware) addClock(f *function, c Clock) {
	dir := f.dir + "/ptp/" + c.Name
	m.file(dir+"/clock_name", c.ClockName+"\n")
	m.file(dir+"/dev", fmt.Sprintf("%d:%d\n", majorPTP, m.numbers["ptp"]))
	m.numbers["ptp"]++
	m.link(dir+"/device", f.dir)
	m.link(dir+"/subsystem", "class/ptp")
	m.link("class/ptp/"+c.Name, dir)
}
