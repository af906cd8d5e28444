/** An existing VPC, from the network settings: without a lookup, so that a stack can be synthesized without an account. */

import { Annotations } from 'aws-cdk-lib';
import {
  type ISecurityGroup,
  type ISubnet,
  type IVpc,
  SecurityGroup,
  Subnet,
  type SubnetSelection,
  Vpc,
} from 'aws-cdk-lib/aws-ec2';
import { Construct } from 'constructs';
import type { VpcSettings } from '../settings/account-settings.ts';

/** The props of a ReportExporter that place its functions. */
export interface ExistingNetwork {
  readonly vpc: IVpc;
  readonly vpcSubnets: SubnetSelection;
  readonly securityGroups?: readonly ISecurityGroup[];
}

export function importNetwork(stack: Construct, { vpcId, subnetIds, securityGroupIds }: VpcSettings): ExistingNetwork {
  const scope = new Construct(stack, 'Network');
  // CDK requires a zone, but only to find subnets, which are given here.
  const vpc = Vpc.fromVpcAttributes(scope, 'Vpc', { vpcId, availabilityZones: ['unknown'] });
  const subnets = subnetIds.map((id) => importSubnet(scope, id));
  return {
    vpc,
    vpcSubnets: { subnets },
    ...(securityGroupIds === undefined
      ? {}
      : {
          // Type assertion: see lib/cdk/storage/stores.ts.
          securityGroups: securityGroupIds.map(
            (id) => SecurityGroup.fromSecurityGroupId(scope, id, id, { mutable: false }) as ISecurityGroup,
          ),
        }),
  };
}

function importSubnet(scope: Construct, subnetId: string): ISubnet {
  const subnet = Subnet.fromSubnetId(scope, subnetId, subnetId);
  // CDK warns that it does not know the route table. Only gateway endpoints need it.
  Annotations.of(subnet).acknowledgeWarning('@aws-cdk/aws-ec2:noSubnetRouteTableId');
  return subnet;
}
