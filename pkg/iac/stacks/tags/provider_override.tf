provider "aws" {
  default_tags {
    tags = {
      by       = "hive-test"
      revision = "overridden"
    }
  }
}
