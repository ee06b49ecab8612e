// Package guests runs the guests of a simulated cloud, for tests of agents: a [spawn.Hypervisor] in memory.
//
//	cloud := simcloud.Run(t)
//	hypervisor := guests.New(cloud)
//	flow, err := spawn.NewFromProvider(cloud.Provider(t), spawn.WithServiceProvider(cloud.ServiceProvider(t)), spawn.WithHypervisor(hypervisor))
//
// It registers each guest with the cloud, whose leak check compares the domain with the accelerators. A test that needs calls
// to fail embeds the hypervisor in its own type and overrides methods.
package guests
