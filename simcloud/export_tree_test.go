package simcloud

import "github.com/gocyborg/gocyborg/driver"

// Tree is the hardware of a host.
func (c *Cloud) Tree(host string) driver.Tree { return c.machine(host).tree }
