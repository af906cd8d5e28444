/**
 * An existing VPC, from the network settings: without a lookup, so that a stack can be synthesized without an account. The
 * endpoints are CloudFormation's own resources, because CDK's need the availability zones of the subnets.
 */

import { Annotations } from 'aws-cdk-lib';
import {
  CfnVPCEndpoint,
  GatewayVpcEndpointAwsService,
  InterfaceVpcEndpointAwsService,
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
import type { EndpointName, VpcSettings } from '../settings/account-settings.ts';

/** The props of a ReportExporter that place its functions. */
export interface ExistingNetwork {
  readonly vpc: IVpc;
  readonly vpcSubnets: SubnetSelection;
  readonly securityGroups?: readonly ISecurityGroup[];
}

export function importNetwork(stack: Construct, settings: VpcSettings): ExistingNetwork {
  const { vpcId, subnetIds, securityGroupIds, createEndpoints = [] } = settings;
  const scope = new Construct(stack, 'Network');
  // CDK requires a zone, but only to find subnets, which are given here.
  const vpc = Vpc.fromVpcAttributes(scope, 'Vpc', { vpcId, availabilityZones: ['unknown'] });
  const subnets = subnetIds.map((id) => importSubnet(scope, id));
  const isOfInterface = (name: EndpointName): name is InterfaceName => name in interfaceServices;
  const interfaces = createEndpoints.filter(isOfInterface);
  const gateways = createEndpoints.filter((name): name is GatewayName => !isOfInterface(name));
  for (const name of gateways) createGatewayEndpoint(scope, name, settings);
  if (interfaces.length > 0) createInterfaceEndpoints(scope, interfaces, vpc, settings);
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
  // CDK warns that it does not know the route table. Only gateway endpoints need it, and they have a setting of their own.
  Annotations.of(subnet).acknowledgeWarning('@aws-cdk/aws-ec2:noSubnetRouteTableId');
  return subnet;
}

/** Each name is CDK's, whose services differ between partitions. */
const gatewayServices = {
  s3: GatewayVpcEndpointAwsService.S3,
  dynamodb: GatewayVpcEndpointAwsService.DYNAMODB,
} as const;
const interfaceServices = {
  secretsmanager: InterfaceVpcEndpointAwsService.SECRETS_MANAGER,
  states: InterfaceVpcEndpointAwsService.STEP_FUNCTIONS,
} as const;
type GatewayName = keyof typeof gatewayServices;
type InterfaceName = keyof typeof interfaceServices;

function createGatewayEndpoint(scope: Construct, name: GatewayName, settings: VpcSettings): void {
  new CfnVPCEndpoint(scope, `Endpoint-${name}`, {
    vpcId: settings.vpcId,
    serviceName: gatewayServices[name].name,
    vpcEndpointType: 'Gateway',
    routeTableIds: [...(settings.routeTableIds ?? [])],
  });
}

/** With private DNS, all of the VPC uses the endpoints. So they accept connections from all of its networks. */
function createInterfaceEndpoints(
  scope: Construct,
  names: readonly InterfaceName[],
  vpc: IVpc,
  { vpcId, subnetIds, vpcCidrs = [] }: VpcSettings,
): void {
  const group = new SecurityGroup(scope, 'EndpointSecurityGroup', {
    vpc,
    description: 'Interface endpoints created by Report Exporter',
    allowAllOutbound: false,
  });
  for (const cidr of vpcCidrs) group.addIngressRule(Peer.ipv4(cidr), Port.tcp(443), 'The VPC');
  for (const name of names) {
    new CfnVPCEndpoint(scope, `Endpoint-${name}`, {
      vpcId,
      serviceName: interfaceServices[name].name,
      vpcEndpointType: 'Interface',
      privateDnsEnabled: true,
      subnetIds: [...subnetIds],
      securityGroupIds: [group.securityGroupId],
    });
  }
}
