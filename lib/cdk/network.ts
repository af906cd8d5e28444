/**
 * The part of a VPC that the four functions run in. All share their subnets and security groups: all read or write the
 * bucket or the table, so what the network controls must hold for each.
 */

import { Annotations } from 'aws-cdk-lib';
import {
  type ISecurityGroup,
  type ISubnet,
  type IVpc,
  Peer,
  Port,
  SecurityGroup,
  Subnet,
  type SubnetSelection,
  Vpc,
} from 'aws-cdk-lib/aws-ec2';
import { Construct } from 'constructs';
import type { VpcSettings } from '../settings/deployment-settings.ts';
import { tokenUrlOf } from '../service/api/auth/kinds.ts';
import type { ServiceSettings } from '../settings/settings.ts';

export interface FunctionNetwork {
  readonly vpc?: IVpc;
  readonly vpcSubnets?: SubnetSelection;
  readonly securityGroups?: readonly ISecurityGroup[];
}

/** The subnets themselves and at least one security group. Without a VPC, CDK rejects both. */
export function functionNetwork(
  scope: Construct,
  { vpc, vpcSubnets, securityGroups = [] }: FunctionNetwork,
  serviceName: string,
  service: ServiceSettings,
): FunctionNetwork {
  if (vpc === undefined) return { vpcSubnets, securityGroups };
  const { subnets } = vpc.selectSubnets(vpcSubnets);
  const groups = securityGroups.length > 0 ? securityGroups : [createSecurityGroup(scope, vpc, serviceName, service)];
  return { vpc, vpcSubnets: { subnets }, securityGroups: groups };
}

/** Allows requests to AWS and to the service and its token endpoint, or to the proxy, and nothing else. */
function createSecurityGroup(
  scope: Construct,
  vpc: IVpc,
  serviceName: string,
  { baseUrl, proxyUrl, auth }: ServiceSettings,
): SecurityGroup {
  const group = new SecurityGroup(scope, 'SecurityGroup', {
    vpc,
    description: `Functions of Report Exporter, service ${serviceName}`,
    allowAllOutbound: false,
  });
  const httpsPort = 443;
  const targets = proxyUrl === undefined ? [baseUrl, tokenUrlOf(auth) ?? baseUrl] : [proxyUrl];
  const ports = targets.map((target) => {
    const { port, protocol } = new URL(target);
    return Number(port) || (protocol === 'http:' ? 80 : httpsPort);
  });
  for (const port of new Set([httpsPort, ...ports])) {
    group.addEgressRule(Peer.anyIpv4(), Port.tcp(port), 'The service and AWS');
  }
  return group;
}

/** An existing VPC, without a lookup, so that a stack can be synthesized without an account. */
export function importNetwork(stack: Construct, { vpcId, subnetIds, securityGroupIds }: VpcSettings): FunctionNetwork {
  const scope = new Construct(stack, 'Network');
  // CDK requires a zone, but only to find subnets, which are given here.
  const vpc = Vpc.fromVpcAttributes(scope, 'Vpc', { vpcId, availabilityZones: ['unknown'] });
  return {
    vpc,
    vpcSubnets: { subnets: subnetIds.map((id) => importSubnet(scope, id)) },
    securityGroups: securityGroupIds?.map((id) => SecurityGroup.fromSecurityGroupId(scope, id, id, { mutable: false })),
  };
}

function importSubnet(scope: Construct, subnetId: string): ISubnet {
  const subnet = Subnet.fromSubnetId(scope, subnetId, subnetId);
  // CDK warns that it does not know the route table. Only gateway endpoints need it.
  Annotations.of(subnet).acknowledgeWarning('@aws-cdk/aws-ec2:noSubnetRouteTableId');
  return subnet;
}
