# The layer: steps/ in order, then what they have found is fetched, and what is the VM's own is taken away.

build {
  sources = ["source.proxmox-clone.layer", "source.proxmox-iso.layer"]

  provisioner "shell" {
    inline = ["mkdir -m 0700 -p /tmp/hive-test-template"]
  }

  provisioner "file" {
    source      = "${path.root}/put/"
    destination = "/tmp/hive-test-template"
  }

  provisioner "shell" {
    inline = ["bash /tmp/hive-test-template/run-steps.sh"]
  }

  provisioner "file" {
    direction   = "download"
    source      = "/tmp/hive-test-template/versions"
    destination = "${path.root}/versions"
  }

  provisioner "shell" {
    inline = ["bash /tmp/hive-test-template/generalise.sh", "rm -rf /tmp/hive-test-template"]
  }
}
