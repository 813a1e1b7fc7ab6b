package pve

// routes are all calls that are served. Whatever is not here is "not implemented" (501), as an unknown path is.
func routes() []route {
	const (
		vmPath      = "/nodes/{node}/qemu/{vmid}"
		storagePath = "/nodes/{node}/storage/{storage}"
		userPath    = "/access/users/{userid}"
	)
	get := func(path string, h handler) route { return route{method: "GET", path: path, serve: h} }
	post := func(path string, h handler) route { return route{method: "POST", path: path, serve: h} }
	put := func(path string, h handler) route { return route{method: "PUT", path: path, serve: h} }
	del := func(path string, h handler) route { return route{method: "DELETE", path: path, serve: h} }
	async := func(r route) route { r.async = true; return r }
	var asks []route
	commands := agentCommands()
	for _, name := range sortedKeys(commands) {
		asks = append(asks, route{
			method: commands[name], path: vmPath + "/agent/" + name, async: true, serve: agentAsk(name),
		})
	}
	return append(asks, []route{
		get("/version", version),

		get("/access", index("acl", "permissions", "roles", "ticket", "users")),
		get("/access/acl", aclList),
		put("/access/acl", aclUpdate),
		get("/access/permissions", permissions),
		get("/access/roles", roleList),
		post("/access/roles", roleCreate),
		get("/access/roles/{roleid}", roleGet),
		put("/access/roles/{roleid}", roleUpdate),
		del("/access/roles/{roleid}", roleDelete),
		get("/access/ticket", nothing),
		async(post("/access/ticket", ticketCreate)),
		get("/access/users", userList),
		post("/access/users", userCreate),
		get(userPath, userGet),
		put(userPath, userUpdate),
		del(userPath, userDelete),
		get(userPath+"/token", tokenList),
		get(userPath+"/token/{tokenid}", tokenGet),
		post(userPath+"/token/{tokenid}", tokenCreate),
		put(userPath+"/token/{tokenid}", tokenUpdate),
		del(userPath+"/token/{tokenid}", tokenDelete),

		get("/cluster", index("ha", "log", "nextid", "options", "resources", "status", "tasks")),
		get("/cluster/ha", haIndex),
		get("/cluster/ha/groups", haGroupList),
		post("/cluster/ha/groups", haGroupAdd),
		get("/cluster/ha/groups/{group}", haGroupGet),
		del("/cluster/ha/groups/{group}", haGroupDelete),
		get("/cluster/ha/resources", haResourceList),
		post("/cluster/ha/resources", haResourceAdd),
		get("/cluster/ha/resources/{sid}", haResourceGet),
		put("/cluster/ha/resources/{sid}", haResourceSet),
		del("/cluster/ha/resources/{sid}", haResourceDelete),
		get("/cluster/ha/rules", haRules),
		get("/cluster/nextid", nextID),
		get("/cluster/options", optionsGet),
		put("/cluster/options", optionsSet),
		get("/cluster/resources", resources),
		get("/cluster/sdn/vnets", nothingListed),
		get("/cluster/status", clusterStatus),
		get("/cluster/tasks", clusterTasks),

		get("/nodes", nodeList),
		get("/nodes/{node}", index("network", "qemu", "status", "storage", "tasks", "time", "version")),
		get("/nodes/{node}/config", nodeConfig),
		get("/nodes/{node}/network", networkList),
		get("/nodes/{node}/sdn/zones", nothingListed),
		get("/nodes/{node}/status", nodeStatus),
		get("/nodes/{node}/time", nodeTime),
		get("/nodes/{node}/version", nodeVersion),
		get("/nodes/{node}/query-url-metadata", urlMetadata),
		get("/nodes/{node}/tasks", taskList),
		get("/nodes/{node}/tasks/{upid}", taskIndex),
		del("/nodes/{node}/tasks/{upid}", taskStop),
		get("/nodes/{node}/tasks/{upid}/log", taskLog),
		get("/nodes/{node}/tasks/{upid}/status", taskStatus),

		get("/nodes/{node}/qemu", qemuList),
		async(post("/nodes/{node}/qemu", createVM)),
		get(
			vmPath,
			index("agent", "clone", "cloudinit", "config", "migrate", "pending", "resize", "snapshot", "status"),
		),
		del(vmPath, deleteVM),
		get(vmPath+"/config", getConfig),
		async(put(vmPath+"/config", putConfig)),
		async(post(vmPath+"/config", postConfig)),
		get(vmPath+"/pending", pending),
		get(vmPath+"/feature", feature),
		put(vmPath+"/resize", resizeDisk),
		get(vmPath+"/cloudinit", cloudinitPending),
		async(put(vmPath+"/cloudinit", regenerate)),
		get(vmPath+"/cloudinit/dump", cloudinitDump),
		post(vmPath+"/clone", cloneVM),
		post(vmPath+"/template", makeTemplate),
		get(vmPath+"/migrate", migrateCheck),
		post(vmPath+"/migrate", migrate),
		post(vmPath+"/monitor", monitorCommand),
		put(vmPath+"/sendkey", sendKey),
		get(vmPath+"/status", statusIndex),
		get(vmPath+"/status/current", statusCurrent),
		post(vmPath+"/status/start", start),
		post(vmPath+"/status/stop", stop),
		post(vmPath+"/status/shutdown", shutdown),
		post(vmPath+"/status/reboot", reboot),
		post(vmPath+"/status/reset", reset),
		post(vmPath+"/status/resume", unpause),
		get(vmPath+"/snapshot", snapshotList),
		post(vmPath+"/snapshot", snapshotCreate),
		get(vmPath+"/snapshot/{snapname}", snapshotIndex),
		del(vmPath+"/snapshot/{snapname}", snapshotDelete),
		get(vmPath+"/snapshot/{snapname}/config", snapshotConfig),
		put(vmPath+"/snapshot/{snapname}/config", snapshotDescribe),
		post(vmPath+"/snapshot/{snapname}/rollback", rollback),

		get(vmPath+"/agent", agentIndex),
		async(post(vmPath+"/agent", agentCommand)),
		async(post(vmPath+"/agent/exec", agentExec)),
		async(get(vmPath+"/agent/exec-status", agentExecStatus)),
		async(get(vmPath+"/agent/file-read", agentFileRead)),
		async(post(vmPath+"/agent/file-write", agentFileWrite)),
		async(post(vmPath+"/agent/set-user-password", agentPassword)),

		get("/nodes/{node}/storage", nodeStorages),
		get(storagePath, nodeStorageIndex),
		get(storagePath+"/content", contentList),
		post(storagePath+"/content", volumeAllocate),
		get(storagePath+"/content/{volume}", volumeInfo),
		del(storagePath+"/content/{volume}", volumeDelete),
		post(storagePath+"/download-url", downloadURL),
		get(storagePath+"/status", storageStatus),
		post(uploadPath, nil), // read by upload itself: its body is not a form

		get("/storage", storageList),
		post("/storage", storageCreate),
		get("/storage/{storage}", storageGet),
		put("/storage/{storage}", storageUpdate),
		del("/storage/{storage}", storageDelete),

		get("/pools", poolList),
		post("/pools", poolCreate),
		put("/pools", poolUpdate),
		del("/pools", poolDelete),
		get("/pools/{poolid}", poolGet),
		put("/pools/{poolid}", poolUpdate),
		del("/pools/{poolid}", poolDelete),
	}...)
}
