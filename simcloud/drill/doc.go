// Package drill runs a flow on a simulated cloud again and again, each time with a
// different fault, and checks that no accelerator is lost.
//
//	drill.Run(t, func(ctx context.Context, cloud *simcloud.Cloud) error {
//		return myAgent(cloud).Spawn(ctx, instance)
//	}, drill.Config{Pairs: 1000})
package drill
