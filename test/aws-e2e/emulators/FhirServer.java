import ca.uhn.fhir.batch2.api.IJobMaintenanceService;
import ca.uhn.fhir.batch2.jobs.config.Batch2JobsConfig;
import ca.uhn.fhir.batch2.jobs.export.BulkDataExportProvider;
import ca.uhn.fhir.context.FhirContext;
import ca.uhn.fhir.jpa.api.config.JpaStorageSettings;
import ca.uhn.fhir.jpa.api.config.ThreadPoolFactoryConfig;
import ca.uhn.fhir.jpa.api.dao.DaoRegistry;
import ca.uhn.fhir.jpa.batch2.JpaBatch2Config;
import ca.uhn.fhir.jpa.binary.api.IBinaryStorageSvc;
import ca.uhn.fhir.jpa.binstore.MemoryBinaryStorageSvcImpl;
import ca.uhn.fhir.jpa.config.HapiJpaConfig;
import ca.uhn.fhir.jpa.config.r4.JpaR4Config;
import ca.uhn.fhir.jpa.config.util.HapiEntityManagerFactoryUtil;
import ca.uhn.fhir.jpa.model.config.PartitionSettings;
import ca.uhn.fhir.jpa.model.config.SubscriptionSettings;
import ca.uhn.fhir.jpa.model.dialect.HapiFhirH2Dialect;
import ca.uhn.fhir.jpa.rp.r4.BinaryResourceProvider;
import ca.uhn.fhir.jpa.rp.r4.ObservationResourceProvider;
import ca.uhn.fhir.jpa.rp.r4.PatientResourceProvider;
import ca.uhn.fhir.jpa.search.DatabaseBackedPagingProvider;
import ca.uhn.fhir.jpa.subscription.channel.config.SubscriptionChannelConfig;
import ca.uhn.fhir.rest.api.server.SystemRequestDetails;
import ca.uhn.fhir.rest.api.server.storage.TransactionDetails;
import ca.uhn.fhir.rest.server.RestfulServer;
import jakarta.persistence.EntityManagerFactory;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.time.Instant;
import java.util.Date;
import java.util.Map;
import javax.sql.DataSource;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.h2.jdbcx.JdbcConnectionPool;
import org.hl7.fhir.r4.model.Observation;
import org.hl7.fhir.r4.model.Patient;
import org.hl7.fhir.r4.model.Reference;
import org.hl7.fhir.r4.model.Resource;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.orm.jpa.JpaTransactionManager;
import org.springframework.orm.jpa.LocalContainerEntityManagerFactoryBean;

/**
 * HAPI's FHIR server with a database in memory. It has 40 patients, and 95 observations: one every 20 days from 2020
 * on, of the first 39 patients in turn.
 */
public class FhirServer {
  private static final int PATIENTS = 40;
  private static final int OBSERVATIONS = 95;
  private static final Instant BEGIN = Instant.parse("2020-01-01T00:00:00Z");

  public static void main(String[] arguments) throws Exception {
    var beans = new AnnotationConfigApplicationContext(Storage.class);
    storeResources(beans.getBean(DaoRegistry.class));
    var server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    var context = new ServletContextHandler();
    context.addServlet(new ServletHolder(servlet(beans)), "/r4/*");
    server.setHandler(context);
    server.start();

    // Each pass takes the jobs one step further. HAPI's own schedule has one a minute.
    var jobs = beans.getBean(IJobMaintenanceService.class);
    for (;;) {
      jobs.runMaintenancePass();
      Thread.sleep(500);
    }
  }

  private static RestfulServer servlet(BeanFactory beans) {
    var fhir = new RestfulServer(beans.getBean(FhirContext.class));
    var pages = beans.getBean(DatabaseBackedPagingProvider.class);
    pages.setDefaultPageSize(10);
    pages.setMaximumPageSize(50);
    fhir.setPagingProvider(pages);
    fhir.registerProviders(
        beans.getBean(PatientResourceProvider.class),
        beans.getBean(ObservationResourceProvider.class),
        beans.getBean(BinaryResourceProvider.class),
        beans.getBean(BulkDataExportProvider.class));
    return fhir;
  }

  private static void storeResources(DaoRegistry all) {
    for (int index = 0; index < PATIENTS; index++) {
      var patient = new Patient();
      patient.setId(String.format("patient-%03d", index));
      store(all, patient, BEGIN);
    }
    for (int index = 0; index < OBSERVATIONS; index++) {
      var observation = new Observation();
      observation.setId(String.format("observation-%03d", index));
      observation.setSubject(new Reference(String.format("Patient/patient-%03d", index % (PATIENTS - 1))));
      observation.getCode().setText("temperature, in \u00b0C");
      store(all, observation, BEGIN.plus(Duration.ofDays(20L * index)));
    }
  }

  private static <T extends Resource> void store(DaoRegistry all, T resource, Instant updated) {
    @SuppressWarnings("unchecked")
    var type = (Class<T>) resource.getClass();
    var transaction = new TransactionDetails(Date.from(updated));
    all.getResourceDao(type).update(resource, null, true, false, new SystemRequestDetails(), transaction);
  }

  /** What HAPI's own configuration leaves to a server. */
  @Configuration
  @Import({
    JpaR4Config.class,
    HapiJpaConfig.class,
    JpaBatch2Config.class,
    Batch2JobsConfig.class,
    SubscriptionChannelConfig.class,
    ThreadPoolFactoryConfig.class
  })
  public static class Storage {
    @Bean
    public DataSource dataSource() {
      return JdbcConnectionPool.create("jdbc:h2:mem:fhir;DB_CLOSE_DELAY=-1", "", "");
    }

    @Bean
    public LocalContainerEntityManagerFactoryBean entityManagerFactory(
        ConfigurableListableBeanFactory beans, FhirContext fhir, JpaStorageSettings settings, DataSource database) {
      var factory = HapiEntityManagerFactoryUtil.newEntityManagerFactory(beans, fhir, settings);
      factory.setPersistenceUnitName("fhir");
      factory.setDataSource(database);
      factory.setJpaPropertyMap(Map.of(
          "hibernate.dialect", HapiFhirH2Dialect.class.getName(),
          "hibernate.hbm2ddl.auto", "create",
          "hibernate.search.enabled", "false"));
      return factory;
    }

    @Bean
    public JpaTransactionManager transactionManager(EntityManagerFactory factory) {
      return new JpaTransactionManager(factory);
    }

    @Bean
    public JpaStorageSettings storageSettings() {
      var settings = new JpaStorageSettings();
      // A file of a bulk export has at most so many resources.
      settings.setBulkExportFileMaximumCapacity(20);
      // Patients can be deleted while observations refer to them.
      settings.setEnforceReferentialIntegrityOnDelete(false);
      return settings;
    }

    @Bean
    public PartitionSettings partitionSettings() {
      return new PartitionSettings();
    }

    @Bean
    public SubscriptionSettings subscriptionSettings() {
      return new SubscriptionSettings();
    }

    /** Of the files of bulk exports. */
    @Bean
    public IBinaryStorageSvc binaryStorage() {
      return new MemoryBinaryStorageSvcImpl();
    }
  }
}
