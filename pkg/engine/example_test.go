package engine_test

import (
	"context"
	"fmt"
	"os"

	"hive-test/pkg/config"
	"hive-test/pkg/engine"
)

// A cluster on the simulated Proxmox VE is made, configured, tested and destroyed.
func Example() {
	settings, err := config.Load(config.LoadOptions{Values: map[string]string{"sim": "true", "node_count": "1", "clusters_dir": os.Getenv("CLUSTERS")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, hive := context.Background(), engine.Open(engine.Options{})
	request := engine.Request{Name: "demo", Settings: settings}
	if _, err := hive.Up(ctx, engine.UpRequest{Request: request}); err != nil {
		fmt.Println(err)
	}
	if _, err := hive.Configure(ctx, engine.ConfigureRequest{Request: request}); err != nil {
		fmt.Println(err)
	}
	outcome, err := hive.Test(ctx, request)
	fmt.Println("test", outcome.Report.Result, err)
	outcome, err = hive.Down(ctx, engine.DownRequest{Request: request})
	fmt.Println("down", outcome.Report.Result, err)
}
