import ca.uhn.fhir.context.FhirContext;
import ca.uhn.fhir.rest.annotation.Delete;
import ca.uhn.fhir.rest.annotation.IdParam;
import ca.uhn.fhir.rest.annotation.OptionalParam;
import ca.uhn.fhir.rest.annotation.Search;
import ca.uhn.fhir.rest.api.server.IBundleProvider;
import ca.uhn.fhir.rest.param.DateRangeParam;
import ca.uhn.fhir.rest.param.ReferenceParam;
import ca.uhn.fhir.rest.server.FifoMemoryPagingProvider;
import ca.uhn.fhir.rest.server.IResourceProvider;
import ca.uhn.fhir.rest.server.RestfulServer;
import ca.uhn.fhir.rest.server.SimpleBundleProvider;
import ca.uhn.fhir.rest.server.exceptions.ResourceGoneException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.hl7.fhir.r4.model.IdType;
import org.hl7.fhir.r4.model.Observation;
import org.hl7.fhir.r4.model.Patient;
import org.hl7.fhir.r4.model.Reference;

/**
 * A FHIR server: bundles and paging are HAPI's own. It has 95 observations, one every 20 days from 2020 on, of 11
 * patients in turn, and a patient without one.
 */
public class FhirServer {
  private static final int PATIENTS = 12;
  private static final int OBSERVATIONS = 95;

  public static void main(String[] arguments) throws Exception {
    var fhir = new RestfulServer(FhirContext.forR4());
    var pages = new FifoMemoryPagingProvider(100);
    pages.setDefaultPageSize(10);
    pages.setMaximumPageSize(50);
    fhir.setPagingProvider(pages);
    var patients = new Patients();
    fhir.setResourceProviders(patients, new Observations(patients.all));

    var server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    var context = new ServletContextHandler();
    context.addServlet(new ServletHolder(fhir), "/r4/*");
    server.setHandler(context);
    server.start();
    server.join();
  }

  public static class Patients implements IResourceProvider {
    private final Map<String, Patient> all = new ConcurrentSkipListMap<>();

    public Patients() {
      for (int index = 0; index < PATIENTS; index++) {
        var patient = new Patient();
        patient.setId(String.format("patient-%03d", index));
        all.put(patient.getIdPart(), patient);
      }
    }

    @Override
    public Class<Patient> getResourceType() {
      return Patient.class;
    }

    @Search
    public IBundleProvider search() {
      return new SimpleBundleProvider(List.copyOf(all.values()));
    }

    @Delete
    public void delete(@IdParam IdType id) {
      all.remove(id.getIdPart());
    }
  }

  public static class Observations implements IResourceProvider {
    private final List<Observation> all = new ArrayList<>();
    private final Map<String, Patient> patients;

    public Observations(Map<String, Patient> patients) {
      this.patients = patients;
      for (int index = 0; index < OBSERVATIONS; index++) {
        var observation = new Observation();
        observation.setId(String.format("observation-%03d", index));
        observation.setSubject(new Reference(String.format("Patient/patient-%03d", index % (PATIENTS - 1))));
        observation.getMeta().setLastUpdated(Date.from(Instant.parse("2020-01-01T00:00:00Z").plus(Duration.ofDays(20L * index))));
        observation.getCode().setText("temperature, in \u00b0C");
        all.add(observation);
      }
    }

    @Override
    public Class<Observation> getResourceType() {
      return Observation.class;
    }

    /** The bounds are inclusive and exclusive, as in `ge2026-11-01` and `lt2026-11-02`. */
    @Search
    public IBundleProvider search(
        @OptionalParam(name = "_lastUpdated") DateRangeParam range,
        @OptionalParam(name = Observation.SP_PATIENT) ReferenceParam patient) {
      if (patient != null && !patients.containsKey(patient.getIdPart())) {
        throw new ResourceGoneException("This patient was deleted");
      }
      return new SimpleBundleProvider(all.stream().filter(one -> {
        var date = one.getMeta().getLastUpdated();
        var isInRange = range == null
            || !date.before(range.getLowerBoundAsInstant()) && date.before(range.getUpperBoundAsInstant());
        return isInRange && (patient == null || one.getSubject().getReferenceElement().getIdPart().equals(patient.getIdPart()));
      }).toList());
    }
  }
}
