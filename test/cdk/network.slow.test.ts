/** The functions in a VPC. */

import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { type IVpc, Peer, Port, SecurityGroup, SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { AwsSolutionsChecks } from 'cdk-nag';
import { describe, expect, it } from 'vitest';
import { ReportExporter, type ReportExporterProps } from '../../lib/cdk/report-exporter.ts';
import {
  anApp,
  deploy,
  deployWith,
  resource,
  resourcesOf,
  someServices,
  textOf,
} from '../support/aws/cdk-deployment.ts';

const steps = ['BeginRun', 'ExportPage', 'FinishRun', 'FailRun'];
const subnetIds = ['subnet-0aaaaaaaaaaaaaaa1', 'subnet-0aaaaaaaaaaaaaaa2'];
const isolatedSubnetIds = ['subnet-0aaaaaaaaaaaaaaa3', 'subnet-0aaaaaaaaaaaaaaa4'];

/** An existing VPC, so that the template has no other network. */
const existingVpc = (stack: Stack): IVpc =>
  Vpc.fromVpcAttributes(stack, 'Vpc', {
    vpcId: 'vpc-0aaaaaaaaaaaaaaa1',
    availabilityZones: ['eu-central-1a', 'eu-central-1b'],
    privateSubnetIds: subnetIds,
    privateSubnetRouteTableIds: ['rtb-0aaaaaaaaaaaaaaa1', 'rtb-0aaaaaaaaaaaaaaa2'],
    isolatedSubnetRouteTableIds: ['rtb-0aaaaaaaaaaaaaaa3', 'rtb-0aaaaaaaaaaaaaaa4'],
    isolatedSubnetIds,
  });

function deployInVpc(props: (stack: Stack, vpc: IVpc) => Partial<ReportExporterProps> = (_, vpc) => ({ vpc })) {
  const app = anApp();
  const stack = new Stack(app, 'Another');
  const reports = new ReportExporter(stack, 'Reports', {
    service: { baseUrl: 'https://reports.example.com:8443' },
    exports: [{ name: 'nightly' }],
    ...props(stack, existingVpc(stack)),
  });
  return { app, stack, reports, template: Template.fromStack(stack) };
}

const configOf = (template: Template, step: string) =>
  resource(template, 'AWS::Lambda::Function', `Reports${step}`).Properties.VpcConfig;

describe('functions in a VPC', () => {
  const { app, template } = deployInVpc();
  const group = resource(template, 'AWS::EC2::SecurityGroup');

  it('are all four, in its private subnets, with one security group', () => {
    for (const step of steps) {
      expect(configOf(template, step)).toEqual({
        SubnetIds: subnetIds,
        SecurityGroupIds: [{ 'Fn::GetAtt': [group.id, 'GroupId'] }],
      });
    }
  });

  it('may connect to AWS and to the port of the service, and accept nothing', () => {
    const { SecurityGroupIngress, SecurityGroupEgress, VpcId } = group.Properties;
    expect(VpcId).toBe('vpc-0aaaaaaaaaaaaaaa1');
    expect(SecurityGroupIngress).toBeUndefined();
    expect(SecurityGroupEgress).toMatchObject([
      { CidrIp: '0.0.0.0/0', IpProtocol: 'tcp', FromPort: 443, ToPort: 443 },
      { CidrIp: '0.0.0.0/0', IpProtocol: 'tcp', FromPort: 8443, ToPort: 8443 },
    ]);
    const standard = deployInVpc((_, vpc) => ({ vpc, service: { baseUrl: 'https://reports.example.com' } }));
    expect(resource(standard.template, 'AWS::EC2::SecurityGroup').Properties.SecurityGroupEgress).toHaveLength(1);
  });

  it('have roles with which Lambda can manage network interfaces in these subnets, and their own code cannot', () => {
    const account = '<AWS::AccountId>';
    const ec2 = (rest: string, owner = account) => `arn:<AWS::Partition>:ec2:<AWS::Region>:${owner}:${rest}`;
    for (const step of steps) {
      const { id } = resource(template, 'AWS::IAM::Role', `Reports${step}Role`);
      expect(resource(template, 'AWS::IAM::Role', `Reports${step}Role`).Properties.ManagedPolicyArns).toBeUndefined();
      const statements = Object.values(resourcesOf(template, 'AWS::IAM::Policy'))
        .filter(({ Properties }) => Properties.Roles.some((role: { Ref: string }) => role.Ref === id))
        .flatMap(({ Properties }) => Properties.PolicyDocument.Statement)
        .filter(({ Action }) => [Action].flat().some((action: string) => action.startsWith('ec2:')));
      const lines = statements.flatMap(({ Effect, Action, Resource, Condition }) =>
        [Action]
          .flat()
          .flatMap((action) =>
            [Resource]
              .flat()
              .map((arn: unknown) => `${Effect} ${action} ${textOf(arn)} ${JSON.stringify(Condition) ?? ''}`.trim()),
          ),
      );
      const onInterfaces = [
        'AssignPrivateIpAddresses',
        'CreateNetworkInterface',
        'DeleteNetworkInterface',
        'UnassignPrivateIpAddresses',
      ];
      const describing = ['DescribeNetworkInterfaces', 'DescribeSubnets'];
      expect(lines.filter((line) => line.includes(' ec2:')).sort()).toEqual(
        [
          // AWS documents this form for roles that name resources for DeleteNetworkInterface.
          ...onInterfaces.map((action) => `Allow ec2:${action} ${ec2('*/*')}`),
          ...subnetIds.map((subnet) => `Allow ec2:CreateNetworkInterface ${ec2(`subnet/${subnet}`, '*')}`),
          `Allow ec2:CreateNetworkInterface ${ec2(`security-group/<${group.id}.GroupId>`, '*')}`,
          ...describing.map((action) => `Allow ec2:${action} *`),
          ...[...onInterfaces, ...describing].map(
            (action) => `Deny ec2:${action} * {"Null":{"lambda:SourceFunctionArn":"false"}}`,
          ),
        ].sort(),
      );
    }
  });

  it('have no finding of cdk-nag that is not acknowledged', () => {
    expect(new AwsSolutionsChecks(app).validateScope(app).violations).toEqual([]);
  });

  it('use the given subnets and security groups', () => {
    const { template: given } = deployInVpc((scope, vpc) => ({
      vpc,
      vpcSubnets: { subnetType: SubnetType.PRIVATE_ISOLATED },
      securityGroups: [SecurityGroup.fromSecurityGroupId(scope, 'Group', 'sg-0aaaaaaaaaaaaaaa1')],
    }));
    given.resourceCountIs('AWS::EC2::SecurityGroup', 0);
    for (const step of steps) {
      expect(configOf(given, step)).toEqual({
        SubnetIds: isolatedSubnetIds,
        SecurityGroupIds: ['sg-0aaaaaaaaaaaaaaa1'],
      });
    }
  });

  it('can be in a VPC of the same app, and be allowed more connections', () => {
    const own = anApp();
    const scope = new Stack(own, 'Another');
    const vpc = new Vpc(scope, 'Vpc', { maxAzs: 2 });
    vpc.addFlowLog('FlowLog');
    const props = { service: { baseUrl: 'https://reports.example.com' }, exports: [{ name: 'nightly' }], vpc };
    const { functions } = new ReportExporter(scope, 'Reports', props);
    functions.ExportPage.connections.allowTo(Peer.ipv4('10.0.0.0/8'), Port.tcp(8080), 'A proxy');
    expect(new AwsSolutionsChecks(own).validateScope(own).violations).toEqual([]);
    const inApp = Template.fromStack(scope);
    expect(configOf(inApp, 'ExportPage').SubnetIds).toHaveLength(2);
    const { SecurityGroupEgress } = resource(inApp, 'AWS::EC2::SecurityGroup', 'Reports').Properties;
    expect(SecurityGroupEgress).toContainEqual(expect.objectContaining({ CidrIp: '10.0.0.0/8', FromPort: 8080 }));
  });

  it('are not needed: without a VPC there is no network, and CDK rejects other settings of one', () => {
    const none = deployInVpc(() => ({}));
    none.template.resourceCountIs('AWS::EC2::SecurityGroup', 0);
    expect(JSON.stringify(none.template.toJSON())).not.toContain('"ec2:');
    expect(() => deployInVpc(() => ({ vpcSubnets: {} }))).toThrow("'vpcSubnets' without configuring a VPC");
  });
});

describe('the network settings of a stack', () => {
  const network = { vpcId: 'vpc-0aaaaaaaaaaaaaaa1', subnetIds };
  const functionsOf = (template: Template) => Object.values(resourcesOf(template, 'AWS::Lambda::Function'));

  it('place the functions of all services in the subnets, each service with a security group of its own', () => {
    const { template } = deployWith(someServices({ network }));
    template.resourceCountIs('AWS::EC2::VPC', 0);
    template.resourceCountIs('AWS::EC2::VPCEndpoint', 0);
    const functions = Object.entries(resourcesOf(template, 'AWS::Lambda::Function'));
    expect(functions).toHaveLength(8);
    for (const [id, { Properties }] of functions) {
      const service = id.startsWith('Serviceseu') ? 'Serviceseu' : 'Servicesus';
      const group = resource(template, 'AWS::EC2::SecurityGroup', service);
      expect(group.Properties.VpcId).toBe(network.vpcId);
      expect(Properties.VpcConfig).toEqual({
        SubnetIds: subnetIds,
        SecurityGroupIds: [{ 'Fn::GetAtt': [group.id, 'GroupId'] }],
      });
    }
  });

  it('may name the security groups', () => {
    const securityGroupIds = ['sg-0aaaaaaaaaaaaaaa1', 'sg-0aaaaaaaaaaaaaaa2'];
    const { template } = deploy({ network: { ...network, securityGroupIds } });
    template.resourceCountIs('AWS::EC2::SecurityGroup', 0);
    for (const { Properties } of functionsOf(template)) {
      expect(Properties.VpcConfig).toEqual({ SubnetIds: subnetIds, SecurityGroupIds: securityGroupIds });
    }
  });

  it('need no account, no lookup and no warning', () => {
    const { app, stack, template } = deploy({ network });
    const assembly = app.synth();
    expect(assembly.manifest.missing).toBeUndefined();
    expect(assembly.getStackArtifact(stack.artifactId).messages.map(({ entry }) => entry.data)).toEqual([]);
    expect(stack.environment).toBe('aws://unknown-account/unknown-region');
    expect(JSON.stringify(template.toJSON())).not.toContain('"unknown"');
  });
});
