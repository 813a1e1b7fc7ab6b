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
	ctx := context.Background()
	settings, loadErr := config.Load(config.LoadOptions{Values: map[string]string{
		"sim": "true", "node_count": "1", "clusters_dir": os.Getenv("CLUSTERS"),
	}})
	hive, openErr := engine.Open(ctx, engine.Options{})
	if loadErr != nil || openErr != nil {
		fmt.Println(loadErr, openErr)
		return
	}
	request := engine.Request{Name: "demo", Settings: settings}
	_, upErr := hive.Up(ctx, engine.UpRequest{Request: request})
	_, configureErr := hive.Configure(ctx, engine.ConfigureRequest{Request: request})
	tested, testErr := hive.Test(ctx, request)
	_, downErr := hive.Down(ctx, engine.DownRequest{Request: request})
	fmt.Println(tested.Report.Result, upErr, configureErr, testErr, downErr)
}
