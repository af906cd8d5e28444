/** Acknowledges findings of cdk-nag, with the reason, next to the resource that they concern. */

import * as cdk from 'aws-cdk-lib';
import type { IConstruct } from 'constructs';

/** `finding` is the exact id, such as `AwsSolutions-S1`. Any other finding on `construct` is still reported. */
export function acknowledge(construct: IConstruct, finding: string, reason: string): void {
  // cdk-nag 3 needs this class, so where it does not exist yet, nothing reads the acknowledgements.
  const { Validations } = cdk as Partial<typeof cdk>;
  Validations?.of(construct).acknowledge({ id: finding, reason });
}

/** Acknowledges a permission whose resource contains a `*`. cdk-nag identifies it by the resource as in the template. */
export function acknowledgeWildcard(construct: IConstruct, resource: string, reason: string): void {
  const resolved = flatten(cdk.Stack.of(construct).resolve(resource));
  acknowledge(construct, `AwsSolutions-IAM5[Resource::${resolved}]`, reason);
}

type ResolvedValue =
  | string
  | { readonly Ref: string }
  | { readonly 'Fn::GetAtt': readonly string[] }
  | { readonly 'Fn::Join': readonly [string, readonly ResolvedValue[]] };

/** Formats references as cdk-nag does: `<Bucket.Arn>/reports/*`. */
function flatten(value: ResolvedValue): string {
  if (typeof value === 'string') return value;
  if ('Ref' in value) return `<${value.Ref}>`;
  if ('Fn::GetAtt' in value) return `<${value['Fn::GetAtt'].join('.')}>`;
  const [delimiter, parts] = value['Fn::Join'];
  return parts.map(flatten).join(delimiter);
}
