package sysfs

// ThroughRoot makes the tree do without openat2.
func (t *DirTree) ThroughRoot() { t.files.fast.off.Store(true) }

// OneCall reports whether the tree opens names with one call.
func (t *DirTree) OneCall() bool { return t.files.fast != nil && !t.files.fast.off.Load() }
