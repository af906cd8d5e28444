/**
 * Why a rule of cdk-nag is broken on purpose, said beside the resource that breaks it.
 */

import { Stack, Validations } from 'aws-cdk-lib';
import type { IConstruct } from 'constructs';

/** `rule` is the finding's exact id, such as `AwsSolutions-S1`; any other finding on `construct` still counts. */
export function acknowledge(construct: IConstruct, rule: string, reason: string): void {
  Validations.of(construct).acknowledge({ id: rule, reason });
}

/** A permission whose resource holds a `*`. cdk-nag names it by the resource as it stands in the template. */
export function acknowledgeWildcard(construct: IConstruct, resource: string, reason: string): void {
  const asWritten = flatten(Stack.of(construct).resolve(resource));
  acknowledge(construct, `AwsSolutions-IAM5[Resource::${asWritten}]`, reason);
}

type Reference =
  | string
  | { readonly Ref: string }
  | { readonly 'Fn::GetAtt': readonly string[] }
  | { readonly 'Fn::Join': readonly [string, readonly Reference[]] };

/** As cdk-nag spells references: `<Bucket.Arn>/reports/*`. */
function flatten(reference: Reference): string {
  if (typeof reference === 'string') return reference;
  if ('Ref' in reference) return `<${reference.Ref}>`;
  if ('Fn::GetAtt' in reference) return `<${reference['Fn::GetAtt'].join('.')}>`;
  const [delimiter, parts] = reference['Fn::Join'];
  return parts.map(flatten).join(delimiter);
}
