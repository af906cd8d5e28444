/** The functions in a VPC. */

import type { Stack } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import { type IVpc, SecurityGroup, SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { describe, expect, it } from 'vitest';
import type { ReportExporterProps } from '../../lib/cdk/report-exporter.ts';
import { stepNames } from '../../lib/core/state-machine/definition.ts';
import {
  deploy,
  deployConstruct,
  deployWith,
  resource,
  resourcesOf,
  statementsOf,
  textOf,
} from '../support/aws/cdk-deployment.ts';
import { someServices } from '../support/settings.ts';

const vpcId = 'vpc-0aaaaaaaaaaaaaaa1';
const subnetIds = ['subnet-0aaaaaaaaaaaaaaa1', 'subnet-0aaaaaaaaaaaaaaa2'];
const isolatedSubnetIds = ['subnet-0aaaaaaaaaaaaaaa3', 'subnet-0aaaaaaaaaaaaaaa4'];
const baseUrl = 'https://reports.example.com';

/** An existing VPC, so that the template has no other network. */
const existingVpc = (stack: Stack): IVpc =>
  Vpc.fromVpcAttributes(stack, 'Vpc', {
    vpcId,
    availabilityZones: ['eu-central-1a', 'eu-central-1b'],
    privateSubnetIds: subnetIds,
    privateSubnetRouteTableIds: ['rtb-0aaaaaaaaaaaaaaa1', 'rtb-0aaaaaaaaaaaaaaa2'],
    isolatedSubnetRouteTableIds: ['rtb-0aaaaaaaaaaaaaaa3', 'rtb-0aaaaaaaaaaaaaaa4'],
    isolatedSubnetIds,
  });

const deployInVpc = (props: Partial<ReportExporterProps> = {}) =>
  deployConstruct((stack) => ({ service: { baseUrl: `${baseUrl}:8443` }, vpc: existingVpc(stack), ...props }));

/** The VpcConfig of all functions, which is the same. */
function configOf(template: Template, idBegins = ''): unknown {
  const functions = Object.entries(resourcesOf(template, 'AWS::Lambda::Function'));
  const own = functions.filter(([id]) => id.startsWith(idBegins)).map(([, { Properties }]) => Properties.VpcConfig);
  expect(own).toEqual(Array(4).fill(own[0]));
  return own[0];
}

describe('functions in a VPC', () => {
  const { template } = deployInVpc();
  const group = resource(template, 'AWS::EC2::SecurityGroup');

  it('are in its private subnets, with one security group', () => {
    const SecurityGroupIds = [{ 'Fn::GetAtt': [group.id, 'GroupId'] }];
    expect(configOf(template)).toEqual({ SubnetIds: subnetIds, SecurityGroupIds });
  });

  it('may connect to AWS and to the port of the service, and accept nothing', () => {
    const { SecurityGroupIngress, SecurityGroupEgress, VpcId } = group.Properties;
    expect(VpcId).toBe(vpcId);
    expect(SecurityGroupIngress).toBeUndefined();
    expect(SecurityGroupEgress).toMatchObject([
      { CidrIp: '0.0.0.0/0', IpProtocol: 'tcp', FromPort: 443, ToPort: 443 },
      { CidrIp: '0.0.0.0/0', IpProtocol: 'tcp', FromPort: 8443, ToPort: 8443 },
    ]);
  });

  const api = {
    request: { path: '/logs' },
    auth: { kind: 'oauth2', tokenUrl: 'https://login.example.com:8443/token', clientId: 'exporter' },
    next: { from: 'link' },
    page: { format: 'json', reports: '/data/*' },
  } as const;
  it.each([
    ['of the service alone', {}, [443]],
    ['of a proxy instead', { api, proxyUrl: 'http://proxy.example' }, [443, 80]],
    ['of the authorization server', { api }, [443, 8443]],
  ])('may connect to the port %s', (_, service, ports) => {
    const group = resource(deployInVpc({ service: { baseUrl, ...service } }).template, 'AWS::EC2::SecurityGroup');
    expect(group.Properties.SecurityGroupEgress).toMatchObject(ports.map((port) => ({ FromPort: port, ToPort: port })));
  });

  it('have roles with which Lambda can manage network interfaces in these subnets, and their own code cannot', () => {
    const ec2 = (rest: string, owner = '<AWS::AccountId>') => `arn:<AWS::Partition>:ec2:<AWS::Region>:${owner}:${rest}`;
    const onInterfaces = [
      'AssignPrivateIpAddresses',
      'CreateNetworkInterface',
      'DeleteNetworkInterface',
      'UnassignPrivateIpAddresses',
    ];
    const describing = ['DescribeNetworkInterfaces', 'DescribeSubnets'];
    const denied = { Null: { 'lambda:SourceFunctionArn': 'false' } };
    const expected = [
      // AWS documents this form for roles that name resources for DeleteNetworkInterface.
      ...onInterfaces.map((action) => `Allow ec2:${action} ${ec2('*/*')} `),
      ...subnetIds.map((subnet) => `Allow ec2:CreateNetworkInterface ${ec2(`subnet/${subnet}`, '*')} `),
      `Allow ec2:CreateNetworkInterface ${ec2(`security-group/<${group.id}.GroupId>`, '*')} `,
      ...describing.map((action) => `Allow ec2:${action} * `),
      ...[...onInterfaces, ...describing].map((action) => `Deny ec2:${action} * ${JSON.stringify(denied)}`),
    ];
    for (const step of stepNames) {
      const lines = statementsOf(template, `Reports${step}Role`).flatMap(({ Effect, Action, Resource, Condition }) =>
        [Action]
          .flat()
          .flatMap((action) =>
            [Resource].flat().map((arn) => `${Effect} ${action} ${textOf(arn)} ${JSON.stringify(Condition) ?? ''}`),
          ),
      );
      expect(lines.filter((line) => line.includes(' ec2:')).sort()).toEqual([...expected].sort());
    }
  });

  it('use the given subnets and security groups', () => {
    const given = deployConstruct((stack) => ({
      vpc: existingVpc(stack),
      vpcSubnets: { subnetType: SubnetType.PRIVATE_ISOLATED },
      securityGroups: [SecurityGroup.fromSecurityGroupId(stack, 'Group', 'sg-0aaaaaaaaaaaaaaa1')],
    })).template;
    given.resourceCountIs('AWS::EC2::SecurityGroup', 0);
    expect(configOf(given)).toEqual({ SubnetIds: isolatedSubnetIds, SecurityGroupIds: ['sg-0aaaaaaaaaaaaaaa1'] });
  });

  it('are not needed: without a VPC there is no network, and CDK rejects other settings of one', () => {
    const none = deployConstruct().template;
    expect(JSON.stringify(none.toJSON())).not.toMatch(/"ec2:|AWS::EC2/);
    expect(() => deployConstruct({ vpcSubnets: {} })).toThrow("'vpcSubnets' without configuring a VPC");
  });
});

describe('the network settings of a stack', () => {
  const network = { vpcId, subnetIds };

  it('place the functions of all services in the subnets, each service with a security group of its own', () => {
    const { template } = deployWith(someServices({ network }));
    for (const type of ['VPC', 'VPCEndpoint']) template.resourceCountIs(`AWS::EC2::${type}`, 0);
    for (const service of ['Serviceseu', 'Servicesus']) {
      const group = resource(template, 'AWS::EC2::SecurityGroup', service);
      expect(group.Properties.VpcId).toBe(vpcId);
      const SecurityGroupIds = [{ 'Fn::GetAtt': [group.id, 'GroupId'] }];
      expect(configOf(template, service)).toEqual({ SubnetIds: subnetIds, SecurityGroupIds });
    }
  });

  it('may name the security groups, and need no account, no lookup and no warning', () => {
    const securityGroupIds = ['sg-0aaaaaaaaaaaaaaa1', 'sg-0aaaaaaaaaaaaaaa2'];
    const { app, stack, template } = deploy({ network: { ...network, securityGroupIds } });
    template.resourceCountIs('AWS::EC2::SecurityGroup', 0);
    expect(configOf(template)).toEqual({ SubnetIds: subnetIds, SecurityGroupIds: securityGroupIds });
    const assembly = app.synth();
    expect(assembly.manifest.missing).toBeUndefined();
    expect(assembly.getStackArtifact(stack.artifactId).messages.map(({ entry }) => entry.data)).toEqual([]);
    expect(stack.environment).toBe('aws://unknown-account/unknown-region');
    expect(JSON.stringify(template.toJSON())).not.toContain('"unknown"');
  });
});
