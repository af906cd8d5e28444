# Uploads what package.sh has collected, and creates or updates the stack with CloudFormation. Run package.sh first.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "stack" {
  type        = string
  description = "The name of the stack."
}

variable "bucket" {
  type        = string
  description = "The fileAssetsBucketName of the app, in the region of the stack."
}

variable "files" {
  type        = string
  default     = "dist"
  description = "The folder that package.sh has written."
}

locals {
  # The name of an asset has a hash of its content, so an object never changes. The name of the template gets one here.
  assets   = setsubtract(fileset(var.files, "**"), ["template.json", "tags.json", "stack.txt"])
  template = "${var.files}/template.json"
}

data "aws_region" "current" {}

resource "aws_s3_object" "asset" {
  for_each = local.assets
  bucket   = var.bucket
  key      = each.value
  source   = "${var.files}/${each.value}"

  # Old objects are deleted after the update of the stack, which needs them if it is rolled back.
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_s3_object" "template" {
  bucket = var.bucket
  key    = "${var.stack}-${filesha256(local.template)}.template.json"
  source = local.template

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_cloudformation_stack" "report_exporter" {
  name         = var.stack
  template_url = "https://s3.${data.aws_region.current.id}.amazonaws.com/${var.bucket}/${aws_s3_object.template.key}"
  capabilities = ["CAPABILITY_IAM"]
  tags         = { for tag in jsondecode(file("${var.files}/tags.json")) : regex("^[^=]*", tag) => regex("=(.*)$", tag)[0] }
  depends_on   = [aws_s3_object.asset]

  lifecycle {
    precondition {
      condition     = var.stack == trimspace(file("${var.files}/stack.txt"))
      error_message = "The template was synthesized for another stack. Set stackName in the settings, and synthesize again."
    }
  }
}

output "stack" {
  value = aws_cloudformation_stack.report_exporter.outputs
}
